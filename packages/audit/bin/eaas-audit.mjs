#!/usr/bin/env node
import { existsSync } from 'node:fs'

// Node opens its inspector on SIGUSR1, from which the key of a witness can be read. A listener takes its place.
process.on('SIGUSR1', () => undefined)

const main = new URL('../dist/main.js', import.meta.url)
if (existsSync(main)) await import(main)
else {
  console.error('eaas-audit: this checkout is not built yet. Run: npm run build')
  process.exitCode = 1
}
