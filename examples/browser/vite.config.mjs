// A page without inline scripts, inline styles and data: URLs, so that the content security policy can be as strict as it is.
import { fileURLToPath } from 'node:url'

/** @type {import('vite').InlineConfig} */
const config = {
  root: fileURLToPath(new URL('.', import.meta.url)),
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
}
export default config
