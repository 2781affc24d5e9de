// Runs on-server.mjs where there is a command line, and prints its outcome as JSON. Reads what it is given, as JSON, from standard input: not
// from a file, which may be below /dev, where Deno lets a program read only if it may do everything.
import process from 'node:process'
import { runOnServer } from './on-server.mjs'

let given = ''
process.stdin.setEncoding('utf8')
for await (const text of process.stdin) given += text
console.log(JSON.stringify(await runOnServer(JSON.parse(given))))
