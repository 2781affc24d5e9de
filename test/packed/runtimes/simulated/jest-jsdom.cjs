// jsdom with what all browsers have and jest's jsdom lacks.
const { TestEnvironment } = require('jest-environment-jsdom')

const { fetch, Headers, Request, Response, ReadableStream, TextDecoder, TextEncoder } = globalThis
const { AbortController, AbortSignal, crypto, structuredClone } = globalThis
const missing = { fetch, Headers, Request, Response, ReadableStream, TextDecoder, TextEncoder, structuredClone }

module.exports = class extends TestEnvironment {
  async setup() {
    await super.setup()
    Object.assign(this.global, missing, { AbortController, AbortSignal }) // Node's fetch takes Node's signals only
    Object.defineProperty(this.global, 'crypto', { value: crypto, configurable: true }) // jsdom's has no `subtle`
  }
}
