#!/usr/bin/env node
import { existsSync } from 'node:fs'

// Node opens its inspector on SIGUSR1, from which the key of a witness can be read. A listener takes its place.
process.on('SIGUSR1', () => undefined)

const main = new URL('../dist/main.js', import.meta.url)
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`eaas-audit: this is Node ${process.versions.node}, and 20.19 or later is needed`)
  process.exitCode = 1
} else if (existsSync(main)) await import(main)
else {
  console.error('eaas-audit: this checkout is not built yet. Run: npm run build')
  process.exitCode = 1
}
