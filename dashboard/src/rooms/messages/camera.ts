/** Zoom and pan by wheel, drag, pinch and keys. */

import { type KeyboardEvent, type PointerEvent, type RefObject, useCallback, useEffect, useRef, useState } from 'react'
import type { Places, Point } from './layout'

export type View = { x: number; y: number; scale: number }
const LEAST = 0.15
const MOST = 4
const STEP = 60

const within = (scale: number) => Math.min(MOST, Math.max(LEAST, scale))

export function useCamera(box: RefObject<SVGSVGElement | null>, places: Places) {
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 })
  const moved = useRef(false)
  const pointers = useRef(new Map<number, Point>())
  const [dragging, setDragging] = useState(false)

  const showAll = useCallback(() => {
    const size = box.current?.getBoundingClientRect()
    if (size === undefined) return
    moved.current = false
    setView(around(Object.values(places), size))
  }, [box, places])

  useEffect(() => {
    if (!moved.current) showAll()
  }, [showAll])

  useEffect(() => {
    const svg = box.current
    if (svg === null) return
    const watch = new ResizeObserver(() => !moved.current && showAll())
    watch.observe(svg)
    const wheel = (event: WheelEvent) => {
      event.preventDefault()
      const at = svg.getBoundingClientRect()
      moved.current = true
      const by = Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015))
      setView((before) => zoomed(before, by, { x: event.clientX - at.left, y: event.clientY - at.top }))
    }
    svg.addEventListener('wheel', wheel, { passive: false })
    return () => {
      watch.disconnect()
      svg.removeEventListener('wheel', wheel)
    }
  }, [box, showAll])

  const zoom = (by: number) => {
    const size = box.current?.getBoundingClientRect()
    if (size === undefined) return
    moved.current = true
    setView((before) => zoomed(before, by, { x: size.width / 2, y: size.height / 2 }))
  }
  const pan = (x: number, y: number) => {
    moved.current = true
    setView((before) => ({ ...before, x: before.x + x, y: before.y + y }))
  }

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget && event.key.startsWith('Arrow')) return
    const act = {
      ArrowLeft: () => pan(STEP, 0),
      ArrowRight: () => pan(-STEP, 0),
      ArrowUp: () => pan(0, STEP),
      ArrowDown: () => pan(0, -STEP),
      '+': () => zoom(1.25),
      '=': () => zoom(1.25),
      '-': () => zoom(0.8),
      '0': showAll,
    }[event.key]
    if (act === undefined || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    act()
  }

  const onPointerDown = (event: PointerEvent) => {
    pointers.current.set(event.pointerId, { x: event.clientX, y: event.clientY })
  }
  const onPointerMove = (event: PointerEvent) => {
    const before = pointers.current.get(event.pointerId)
    if (before === undefined) return
    const now = { x: event.clientX, y: event.clientY }
    if (!dragging && Math.hypot(now.x - before.x, now.y - before.y) < 4) return
    if (!dragging) {
      setDragging(true)
      event.currentTarget.setPointerCapture(event.pointerId)
    }
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1]
    pointers.current.set(event.pointerId, now)
    if (other === undefined) {
      pan(now.x - before.x, now.y - before.y)
      return
    }
    const apart = (point: Point) => Math.hypot(point.x - other.x, point.y - other.y)
    const at = event.currentTarget.getBoundingClientRect()
    moved.current = true
    const middle = { x: (now.x + other.x) / 2 - at.left, y: (now.y + other.y) / 2 - at.top }
    setView((view) => zoomed(view, apart(now) / Math.max(1, apart(before)), middle))
  }
  const onPointerUp = (event: PointerEvent) => {
    pointers.current.delete(event.pointerId)
    if (pointers.current.size === 0) setDragging(false)
  }
  const onPointerCancel = onPointerUp
  return {
    view,
    zoom,
    showAll,
    dragging,
    handlers: { onKeyDown, onPointerDown, onPointerMove, onPointerUp, onPointerCancel },
  }
}

function zoomed({ x, y, scale }: View, by: number, at: Point): View {
  const next = within(scale * by)
  const ratio = next / scale
  return { scale: next, x: at.x - (at.x - x) * ratio, y: at.y - (at.y - y) * ratio }
}

const MARGIN = 60

/** All of them, in the middle. */
function around(points: Point[], size: { width: number; height: number }): View {
  if (points.length === 0 || size.width === 0) return { x: size.width / 2, y: size.height / 2, scale: 1 }
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)]
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)]
  const scale = within(
    Math.min(
      1.25,
      (size.width - 2 * MARGIN) / Math.max(1, right - left),
      (size.height - 2 * MARGIN) / Math.max(1, bottom - top),
    ),
  )
  return {
    scale,
    x: size.width / 2 - ((left + right) / 2) * scale,
    y: size.height / 2 - ((top + bottom) / 2) * scale,
  }
}
