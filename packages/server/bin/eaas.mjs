#!/usr/bin/env node
import { existsSync } from 'node:fs'

const main = new URL('../dist/main.js', import.meta.url)
if (existsSync(main)) await import(main)
else {
  console.error('eaas: this checkout is not built yet. Run: npm run build')
  process.exitCode = 1
}
