// A Patroni cluster on loopback, with etcd and the guide's haproxy before it, all below one folder that is removed with its processes.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findPostgres } from '../../support/database/find-postgres.js'
import { freePort, processes, signalIfThere, unprivilegedAccount } from '../../support/database/postgres.js'
import { guardedDir } from '../../support/run/guarded-dir.js'
import { blockOf } from '../../support/sources/server-docs.js'
import type { Programs } from './find-patroni.js'

const PAGE = 'high-availability.md'
const READY_MS = 180_000
const POLL_MS = 200

export interface Node {
  name: string
  port: number
  restPort: number
  folder: string
}

interface Member {
  name: string
  role: string
  state: string
  timeline?: number
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>

/**
 * Starts nodes with the settings of the guide, and returns when one leads and the others stream.
 * @param settings changes the guide's settings
 */
export async function startCluster(
  programs: Programs,
  { nodes: count, settings = (text) => text }: { nodes: number; settings?: (text: string) => string },
) {
  const bin = findPostgres()
  if (bin === undefined) throw new Error('there is no PostgreSQL')
  const account = unprivilegedAccount()
  const guard = guardedDir('eaas-ha')
  const own = (path: string) => account && chownSync(path, account.uid, account.gid)
  own(guard.path)
  const password = randomBytes(16).toString('hex')
  const watching = setInterval(() => guard.watch(pidsBelow(guard.path)), 500)

  /** Runs a program as the unprivileged account, in a session of its own. */
  function run(name: string, program: string, args: string[]): ChildProcess {
    const log = openSync(join(guard.path, `${name}.log`), 'a')
    const env = { PATH: process.env.PATH ?? '', HOME: guard.path, LC_ALL: 'C', TZ: 'UTC' }
    const child = spawn(program, args, {
      cwd: guard.path,
      env,
      detached: true,
      stdio: ['ignore', log, log],
      ...account,
    })
    closeSync(log)
    child.unref()
    return child
  }

  function writeOwn(path: string, text: string): string {
    writeFileSync(path, text, { mode: 0o600 })
    own(path)
    return path
  }

  const [etcdPort, peerPort, proxyPort] = [await freePort(), await freePort(), await freePort()]
  const [etcd, peer] = [`http://127.0.0.1:${etcdPort}`, `http://127.0.0.1:${peerPort}`]
  const members = `--listen-peer-urls=${peer} --initial-advertise-peer-urls=${peer} --initial-cluster=etcd=${peer}`
  const clients = `--listen-client-urls=${etcd} --advertise-client-urls=${etcd}`
  const data = `--data-dir=${join(guard.path, 'etcd')}`
  run('etcd', programs.etcd, ['--name=etcd', data, ...`${members} ${clients}`.split(' ')])

  const nodes: Node[] = []
  for (let at = 0; at < count; at++) {
    const name = ['one', 'two', 'three'][at] ?? `node${at}`
    const folder = join(guard.path, name)
    mkdirSync(folder)
    own(folder)
    const node = { name, folder, port: await freePort(), restPort: await freePort() }
    nodes.push(node)
    writeOwn(
      join(folder, 'patroni.yml'),
      patroniConfig(node, { bin, etcdPort, password }) + settings(blockOf(PAGE, 'bootstrap:')),
    )
  }

  const configOf = ({ folder }: Node) => join(folder, 'patroni.yml')
  const start = (node: Node) => void run(node.name, programs.patroni, [configOf(node)])
  const signal = (node: Node, name: NodeJS.Signals) => {
    for (const pid of pidsBelow(`${node.folder}/`)) signalIfThere(pid, name)
  }

  async function membersNow(): Promise<Member[]> {
    for (const { restPort } of nodes) {
      const init = { signal: AbortSignal.timeout(2_000) }
      const answer = await fetch(`http://127.0.0.1:${restPort}/cluster`, init).catch(() => undefined)
      if (answer?.ok) return ((await answer.json()) as { members: Member[] }).members
    }
    return []
  }

  /** Whether a node says by itself that it takes writes, as haproxy asks it. */
  const isPrimary = ({ restPort }: Node) =>
    fetch(`http://127.0.0.1:${restPort}/primary`, { signal: AbortSignal.timeout(2_000) }).then(
      ({ status }) => status === 200,
      () => false,
    )

  async function until<T>(what: string, find: () => Promise<T | undefined | false>): Promise<T> {
    const deadline = Date.now() + READY_MS
    while (Date.now() < deadline) {
      const found = await find().catch(() => undefined) // a node that is starting
      if (found) return found
      await sleep(POLL_MS)
    }
    const logs = nodes.map(
      ({ name }) => `${name}: ${readFileSync(join(guard.path, `${name}.log`), 'utf8').slice(-2_000)}`,
    )
    throw new Error(`${what}: not within ${READY_MS} ms. ${JSON.stringify(await membersNow())}\n${logs.join('\n')}`)
  }

  /** Waits for a node that takes writes, other than one. */
  const leader = (other?: Node) =>
    until('a leader', async () => {
      for (const node of nodes) if (node !== other && (await isPrimary(node))) return node
      return undefined
    })

  /** Waits until all nodes run and follow the leader, one of them synchronously if that is set. */
  const whole = () =>
    until('a whole cluster', async () => {
      const found = await membersNow()
      const streaming = found.filter(
        ({ role, state, timeline }) =>
          role !== 'leader' &&
          /running|streaming/.test(state) &&
          timeline === found.find(({ role }) => role === 'leader')?.timeline,
      )
      const needed = settings(blockOf(PAGE, 'bootstrap:')).includes('synchronous_mode: true')
        ? 'sync_standby'
        : 'replica'
      return streaming.length === count - 1 && streaming.some(({ role }) => role === needed)
    })

  const [first] = nodes as [Node, ...Node[]]
  const cluster = {
    folder: guard.path,
    bin,
    account,
    nodes,
    run,
    writeOwn,
    leader,
    whole,
    until,
    membersNow,
    isPrimary,
    start,
    /** SIGKILL to Patroni, PostgreSQL and all that they started, at once. */
    async kill9(node: Node) {
      signal(node, 'SIGSTOP')
      signal(node, 'SIGKILL')
      while (pidsBelow(`${node.folder}/`).length > 0) await sleep(20)
    },
    /** SIGSTOP to Patroni alone. */
    freezePatroni(node: Node) {
      for (const pid of pidsBelow(configOf(node), false)) signalIfThere(pid, 'SIGSTOP')
    },
    /** Runs shell commands as the account of the nodes, with the programs of PostgreSQL in the path. */
    async shell(commands: string): Promise<void> {
      const env = { PATH: `${bin}:${process.env.PATH}`, HOME: guard.path, LC_ALL: 'C' }
      await promisify(execFile)('sh', ['-ec', commands], { cwd: guard.path, env, ...account })
    },
    freeze: (node: Node) => signal(node, 'SIGSTOP'),
    thaw: (node: Node) => signal(node, 'SIGCONT'),
    /** The superuser's URL of a database at one node. */
    urlOf: ({ port }: Pick<Node, 'port'>, database = 'eaas') =>
      `postgres://postgres:${password}@127.0.0.1:${port}/${database}`,
    /** The URL that names all nodes. */
    hostsUrl: () => `postgres://postgres:${password}@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}/eaas`,
    /** The URL of the guide's haproxy. */
    proxyUrl: () => `postgres://postgres:${password}@127.0.0.1:${proxyPort}/eaas`,
    /** Runs a patronictl command as the account of the nodes. */
    async patronictl(...args: string[]): Promise<string> {
      const options = { env: { PATH: process.env.PATH ?? '', HOME: guard.path, LC_ALL: 'C.UTF-8' }, ...account }
      const { stdout, stderr } = await promisify(execFile)(
        programs.patronictl,
        ['-c', configOf(first), ...args],
        options,
      )
      return stdout + stderr
    },
    async remove() {
      clearInterval(watching)
      guard.watch(pidsBelow(guard.path))
      await guard.remove()
    },
  }
  try {
    for (const node of nodes) start(node)
    await whole()
    const proxy = blockOf(PAGE, 'listen postgres').replace('127.0.0.1:5000', `127.0.0.1:${proxyPort}`)
    const servers = nodes.map(
      ({ name, port, restPort }) => `  server ${name} 127.0.0.1:${port} check port ${restPort}\n`,
    )
    const config = `global\n  maxconn 500\n${proxy.replace(/( {2}server .*\n)+/, servers.join(''))}`
    run('haproxy', programs.haproxy, ['-db', '-f', writeOwn(join(guard.path, 'postgres.cfg'), config)])
    return cluster
  } catch (error) {
    await cluster.remove()
    throw error
  }
}

function patroniConfig(
  { name, folder, port, restPort }: Node,
  { bin, etcdPort, password }: { bin: string; etcdPort: number; password: string },
): string {
  return `scope: eaas
name: ${name}
restapi:
  listen: 127.0.0.1:${restPort}
  connect_address: 127.0.0.1:${restPort}
etcd3:
  hosts: 127.0.0.1:${etcdPort}
postgresql:
  listen: 127.0.0.1:${port}
  connect_address: 127.0.0.1:${port}
  data_dir: ${folder}/data
  bin_dir: ${bin}
  pgpass: ${folder}/pgpass
  authentication:
    superuser: { username: postgres, password: ${password} }
    replication: { username: replicator, password: ${password} }
    rewind: { username: rewinder, password: ${password} }
  parameters:
    unix_socket_directories: ${folder}
    shared_buffers: 32MB
  pg_hba:
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication replicator 127.0.0.1/32 scram-sha-256
`
}

/** The processes whose command line names a path, and their descendants. */
function pidsBelow(path: string, withDescendants = true): number[] {
  const all = processes().filter(({ state }) => !state.startsWith('Z'))
  const found = new Set(all.filter(({ pid }) => pid !== process.pid && namesPath(pid, path)).map(({ pid }) => pid))
  for (let size = -1; withDescendants && size !== found.size; ) {
    size = found.size
    for (const { pid, ppid } of all) if (found.has(ppid)) found.add(pid)
  }
  return [...found]
}

function namesPath(pid: number, path: string): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    return command.includes(path) && !command.includes('eaas-test-guard')
  } catch {
    return false // it has ended meanwhile
  }
}
