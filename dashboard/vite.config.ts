import { fileURLToPath } from 'node:url'
import { tanstackRouter } from '@tanstack/router-plugin/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

const server = process.env.RINGFENCE_URL ?? 'http://127.0.0.1:8080'
// The paths of the server that pages ask for; everything else in development is Vite's.
const ours = ['/api', '/signin', '/openapi.json', '/readyz']

export default defineConfig({
  base: '/app/',
  plugins: [tanstackRouter({ target: 'react', quoteStyle: 'single' }), react()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: process.env.RINGFENCE_DASHBOARD_OUT ?? '../ringfence/dashboard/built',
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false, // 16 kB in all; a part's own sheet that failed once would never be asked for again
    assetsInlineLimit: 0, // an inlined data: address would have to be allowed by the Content-Security-Policy
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      ours.map((path) => [path, { target: server, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
})
