// A temp folder and the processes that work in it: both are removed within moments after this process ends, however it ends.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A shell in a session of its own reads our pipe: each line lists the process ids to watch. The pipe closes when we end, even
 * by SIGKILL; the shell then ends those processes (SIGQUIT is PostgreSQL's immediate shutdown) and removes the folder. A zombie
 * counts as ended.
 */
const WATCH = `
while read -r line; do pids=$line; done
for pid in $pids; do kill -QUIT "$pid" 2>/dev/null; done
for tick in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  alive=
  for pid in $pids; do
    kill -0 "$pid" 2>/dev/null && ! grep -qs '^State:.Z' "/proc/$pid/status" && alive=1
  done
  [ -z "$alive" ] && break
  sleep 0.1
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
`

export interface GuardedDir {
  readonly path: string
  /** Sets the processes that must not outlive us; replaces those set before. */
  watch(pids: number[]): void
  /** Ends the watched processes, removes the folder, and resolves when that is done. */
  remove(): Promise<void>
}

/**
 * Makes a temp folder that is removed when this process ends, however it ends.
 * @param prefix of the folder's name
 * @param parent folder to make it in; the system's temp folder by default
 */
export function guardedDir(prefix: string, parent = tmpdir()): GuardedDir {
  const path = mkdtempSync(join(parent, `${prefix}-`))
  const watcher = spawn('/bin/sh', ['-c', WATCH, 'eaas-test-guard', path], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = once(watcher, 'exit')
  watcher.unref()
  if ('unref' in watcher.stdin && typeof watcher.stdin.unref === 'function') watcher.stdin.unref()
  return {
    path,
    watch: (pids) => {
      watcher.stdin.write(`${pids.join(' ')}\n`)
    },
    remove: async () => {
      watcher.ref()
      watcher.stdin.end()
      await ended
    },
  }
}
