import { arranged, type Task } from './layout'

self.onmessage = ({ data }: MessageEvent<Task>) => self.postMessage(arranged(data))
