// Loaded into an example's server (node --import): ends it with the example, and removes its temporary folder, however the
// example ends, SIGKILL included. The example holds the other end of our standard input, and the kernel closes it then.
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) endWithParent() // the server's threads load this too

function endWithParent() {
  const folder = process.env.EXAMPLE_FOLDER
  if (!folder) throw new Error('EXAMPLE_FOLDER must name the folder to make')
  mkdirSync(folder, { recursive: true }) // the browser example may have begun to write its page there
  chmodSync(folder, 0o700)
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))

  process.stdin.resume().on('close', () => {
    const isServing = process.listenerCount('SIGTERM') > 0
    if (isServing) process.kill(process.pid, 'SIGTERM')
    else endStarting()
  })
  if ('unref' in process.stdin && typeof process.stdin.unref === 'function') process.stdin.unref()
}

/** Ends a server that is still starting, with the process in our group that may be creating the database. */
function endStarting() {
  process.on('SIGTERM', () => undefined) // not for us
  process.kill(-process.pid, 'SIGTERM')
  process.exit(1)
}
