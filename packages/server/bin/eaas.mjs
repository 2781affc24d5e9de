#!/usr/bin/env node
import { existsSync } from 'node:fs'

// Node opens its inspector on SIGUSR1, from which every secret in memory can be read. A listener takes its place.
process.on('SIGUSR1', () => undefined)

// The kernel ends the first process of a container by no signal that it does not handle. main.ts takes over from here.
const FATAL = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }
if (process.pid === 1)
  for (const [name, number] of Object.entries(FATAL)) process.on(name, () => process.exit(128 + number))

const main = new URL('../dist/main.js', import.meta.url)
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`eaas: this is Node ${process.versions.node}, and 20.19 or later is needed`)
  process.exitCode = 1
} else if (existsSync(main)) await import(main)
else {
  console.error('eaas: this checkout is not built yet. Run: npm run build')
  process.exitCode = 1
}
