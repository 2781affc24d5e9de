// FerretDB, which speaks MongoDB's protocol on SQLite: finds it or installs it as a Go module, and starts it for a test.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findProgram } from '../run/apt-program.js'
import { guardedDir } from '../run/guarded-dir.js'
import { freePort } from './postgres.js'

/** The last release that needs no extension of PostgreSQL. */
const VERSION = 'v1.24.2'
const MODULE = `github.com/FerretDB/FerretDB/ferretdb`
const INSTALL_TIMEOUT_MS = 30 * 60_000
const READY_TIMEOUT_MS = 60_000
const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'eaas-tests', `ferretdb-${VERSION}`)
/** Its own command is built only from its repository, with files that no module has. Like this it reports nothing to its makers. */
const MAIN = `package main

import (
	"context"
	"os"

	"${MODULE}"
)

func main() {
	listener := ferretdb.ListenerConfig{TCP: os.Args[1]}
	server, err := ferretdb.New(&ferretdb.Config{Listener: listener, Handler: "sqlite", SQLiteURL: "file:" + os.Args[2] + "/"})
	if err == nil {
		err = server.Run(context.Background())
	}
	if err != nil {
		panic(err)
	}
}
`

/** Finds the program: EAAS_TEST_FERRETDB, then the cache, into which Go builds it. EAAS_TEST_FERRETDB=none means none. */
export function findOrInstallFerretdb(): string | undefined {
  const named = process.env.EAAS_TEST_FERRETDB
  const program = named ?? join(cache, 'ferretdb')
  const go = findProgram('go')
  if (named === undefined && go !== undefined && !existsSync(program)) {
    console.error(`No FerretDB found: building ${MODULE}@${VERSION} in ${cache}, which takes minutes …`)
    mkdirSync(cache, { recursive: true })
    writeFileSync(join(cache, 'main.go'), MAIN)
    rmSync(join(cache, 'go.mod'), { force: true })
    const options = { cwd: cache, stdio: 'pipe', timeout: INSTALL_TIMEOUT_MS } as const
    try {
      for (const args of [
        ['mod', 'init', 'local'],
        ['get', `${MODULE}@${VERSION}`],
        ['build', '-o', 'ferretdb'],
      ])
        execFileSync(go, args, { ...options, env: { ...process.env, CGO_ENABLED: '0' } })
    } catch (error) {
      console.error(`Go could not build ${MODULE}: ${error instanceof Error ? error.message.trim() : error}`)
    }
  }
  if (existsSync(program)) return program
  console.error('!!! NO FERRETDB FOUND: Mongoose is not tested. Install Go, or set EAAS_TEST_FERRETDB.')
  return undefined
}

/** Starts it on an empty folder. */
export async function startFerretdb(program: string): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = guardedDir('eaas-test-ferretdb')
  const port = await freePort()
  const child = spawn(program, [`127.0.0.1:${port}`, folder.path], {
    cwd: folder.path,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  folder.watch(child.pid === undefined ? [] : [child.pid])
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (!(await listens(port))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await folder.remove()
      throw new Error(`FerretDB does not listen: ${log.slice(-2_000)}`)
    }
    await sleep(50)
  }
  return { url: `mongodb://127.0.0.1:${port}/shop`, stop: () => folder.remove() }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
