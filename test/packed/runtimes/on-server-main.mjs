// Runs on-server.mjs where there is a command line, and prints its outcome as JSON. Takes the path of what it is given, as JSON.
import { readFile } from 'node:fs/promises'
import process from 'node:process'
import { runOnServer } from './on-server.mjs'

console.log(JSON.stringify(await runOnServer(JSON.parse(await readFile(process.argv[2], 'utf8')))))
