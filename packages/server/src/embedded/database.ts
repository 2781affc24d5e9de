// The embedded database: PGlite in this process, reached through a unix socket like any PostgreSQL.
//
// In the data directory: `postgres/` (the database), `moved` once the installation is elsewhere, `.s.PGSQL.5432` (the
// socket), `server.lock.*` and `alive-*.sock` (data-directory-lock.ts), `root.key`, and `.gitignore`, which covers all.
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import {
  answers,
  createDirectory,
  type DataDirectoryLock,
  findLockHolder,
  lockDataDirectory,
  shortSocketPath,
  syncDirectory,
} from '@eaas/audit/node'
import type { PGlite } from '@electric-sql/pglite'
import { EMBEDDED_PATH, SET_FORMATS } from '../core/store/text-formats.js'
import { createClusterIfAbsent, isCluster, removeUnreferencedFiles } from './cluster.js'
import type { DurableNodeFS } from './fsync.js'
import { type EmbeddedSocket, serveOnSocket } from './socket.js'

const MOVED_NAME = 'moved' // says that the installation of this data directory is now in another database
const CLUSTER = 'postgres' // the database's directory within the data directory
const SOCKET_NAME = '.s.PGSQL.5432' // the name that libpq and psql look for if the directory is given as host
/** PGlite's default of 160 MB would lie in this process's memory; a small key table and an append-only log need little. */
const SHARED_BUFFERS = '16MB'
const MAINTENANCE_INTERVAL_MS = 1_000
const LOCK_CHECK_INTERVAL_MS = 250
/** While clients are served. Less than the 0.1 s that another process takes from its lock to its first write. */
const LOCK_CHECK_BUSY_MS = 20
/** How long a holder that lost its lock, or was told to end, may still answer before it notices. */
const ENDING_TIMEOUT_MS = 1_000
const CHECKPOINT_INTERVAL_MS = 5 * 60_000 // PostgreSQL's default checkpoint_timeout
const CHECKPOINT_AFTER_FSYNCS = 10_000 // about one fsync for each commit, of 1 to 8 kB of log
const VACUUM_AFTER_TRANSACTIONS = 1_000_000 // PostgreSQL refuses to write after 2^31
const STARTING_TIMEOUT_MS = 30_000 // how long a command waits for a server that holds the lock but is still starting

interface EmbeddedOptions {
  dataDir: string // created with mode 0700 if it is missing
  /**
   * Called when PostgreSQL gave up after a failed write or fsync, or when this process lost the lock or the directory.
   * Nothing is served until the directory is opened again, which recovers every acknowledged commit. Default: throw.
   */
  onFailure?: (error: Error) => void
}

export interface Embedded {
  socketPath: string // `path` for postgres.js
  fresh: boolean
  durability: 'fsync' | 'none' // `none`: commits survive a crash of the process, but not a power cut; the operator must be told
  /** Waits up to five seconds for clients. @throws LockLostError if the directory is no longer the locked one */
  close(): Promise<void>
}

export interface RunningEmbedded {
  pid: number
  socketPath: string // `path` for postgres.js
  durability: Embedded['durability'] | undefined // as of its start; undefined if its version does not report it
}

/**
 * Opens the database of a data directory, which is locked until `close` or the end of the process. @throws
 * DataDirectoryInUseError, or UnlockedServerError if a server runs without its lock; ForeignDataDirectoryError,
 * MovedInstallationError, UnusableDataDirectoryError
 */
export async function openEmbedded({ dataDir, onFailure = crash }: EmbeddedOptions): Promise<Embedded> {
  const directory = resolve(dataDir)
  try {
    return await openDirectory(directory, onFailure)
  } catch (error) {
    throw UnusableDataDirectoryError.of(directory, error) ?? error
  }
}

async function openDirectory(directory: string, onFailure: (error: Error) => void): Promise<Embedded> {
  makePrivate(directory)
  keepFromGit(directory)
  const lock = await lockDataDirectory(directory)
  try {
    assertNotMoved(directory)
    const socketPath = shortSocketPath(directory, SOCKET_NAME)
    await assertNotServed(socketPath)
    const cluster = join(directory, CLUSTER)
    // Imported here, so that commands on PostgreSQL, or beside a server, do not load PGlite.
    const loading = import('./fsync.js')
    loading.catch(() => undefined) // awaited below, unless creating fails first
    const fresh = await createClusterIfAbsent(cluster)
    const { commitsReachTheDisk, DURABLE_START_PARAMS, DurableNodeFS } = await loading
    const fs = new DurableNodeFS(cluster)
    const database = await openCluster(fs, DURABLE_START_PARAMS)
    const durability = (await commitsReachTheDisk(database, fs)) ? 'fsync' : 'none'
    lock.writeDurability(durability)
    await vacuumIfDue(database)
    await removeUnreferencedFiles(cluster, database)

    lock.assertHeld()
    rmSync(socketPath, { force: true }) // left by a killed holder
    const findLoss = createLossFinder(lock)
    const failure = () => fs.failure ?? findLoss()
    const socket = await serveOnSocket({ database, path: socketPath, failure, onFailure })
    const stopMaintenance = maintain(socket, fs)
    const stopWatching = watch(findLoss, socket)
    return {
      socketPath,
      fresh,
      durability,
      async close() {
        stopMaintenance()
        await socket.close()
        stopWatching()
        try {
          const lost = findLoss()
          if (lost) throw lost
          if (fs.failure) return
          lock.assertHeld() // closing writes
          await database.close()
          lock.assertHeld()
        } finally {
          await lock.release()
        }
      },
    }
  } catch (error) {
    await lock.release()
    throw error
  }
}

/**
 * Finds the process that holds a data directory, so that a command can work through its socket. Waits up to 30 seconds
 * for one that is still starting. @throws Error when a process holds the directory but does not serve it
 */
export async function findRunningEmbedded(dataDir: string): Promise<RunningEmbedded | undefined> {
  const directory = resolve(dataDir)
  if (!existsSync(directory)) return undefined

  const deadline = Date.now() + STARTING_TIMEOUT_MS
  while (Date.now() < deadline) {
    const socketPath = shortSocketPath(directory, SOCKET_NAME)
    const isServing = await answers(socketPath)
    const holder = await findLockHolder(directory) // read last: it wrote its durability before it served
    if (!holder) return undefined
    if (isServing) return { pid: holder.pid, socketPath, durability: holder.durability }
    await sleep(100)
  }
  throw new Error(
    `A process holds the data directory ${directory} but does not answer on ${SOCKET_NAME}. Check its log; it may ` +
      `still be recovering after a crash.`,
  )
}

/** Creates a function that checks the lock, unless it did so just before. Once the lock is lost, it returns the reason. */
function createLossFinder(lock: DataDirectoryLock): () => Error | undefined {
  let lost: Error | undefined
  let lookedAt = performance.now()
  return () => {
    if (lost || performance.now() - lookedAt < LOCK_CHECK_BUSY_MS) return lost
    lookedAt = performance.now()
    try {
      lock.assertHeld()
    } catch (error) {
      lost = error as Error
    }
    return lost
  }
}

function watch(findLoss: () => Error | undefined, socket: EmbeddedSocket): () => void {
  const look = () => {
    const lost = findLoss()
    if (lost) socket.fail(lost)
  }
  const timer = setInterval(look, LOCK_CHECK_INTERVAL_MS).unref()
  return () => clearInterval(timer)
}

/** Thrown when a process serves the directory's database although another one could take the lock. */
export class UnlockedServerError extends Error {
  override readonly name = 'UnlockedServerError'

  constructor(socketPath: string) {
    super(
      `A server answers on ${socketPath}, but its lock in the data directory is gone: somebody removed or changed it while the server ran. Two ` +
        'processes on one directory would lose data, so nothing was opened. Stop that server, and find out who can write the directory. Then run this again.',
    )
  }
}

/** A holder stops answering before it releases the lock, or soon after losing it. @throws UnlockedServerError */
async function assertNotServed(socketPath: string): Promise<void> {
  const deadline = Date.now() + ENDING_TIMEOUT_MS
  while (await answers(socketPath)) {
    if (Date.now() >= deadline) throw new UnlockedServerError(socketPath)
    await sleep(50)
  }
}

async function openCluster(fs: DurableNodeFS, startParams: readonly string[]): Promise<PGlite> {
  // Keeps V8 from optimizing PGlite's WebAssembly beyond its baseline compiler, which would take each start a second of
  // CPU, and on Node 24 600 MB for one function. Calls take no more CPU without it.
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']) setFlagsFromString(flag)
  const { PGlite } = await import('@electric-sql/pglite')
  const output: string[] = []
  try {
    const database = await PGlite.create({
      fs,
      // A log file that is no longer needed is removed instead of recycled, since it may hold a destroyed key (erasure.ts).
      startParams: [...startParams, '-c', `shared_buffers=${SHARED_BUFFERS}`, '-c', 'wal_recycle=off'],
      onStderr: (line) => {
        output.push(line)
        return false
      },
    })
    await database.exec(`${SET_FORMATS}; set search_path = ${EMBEDDED_PATH}`) // overrides settings of database and role
    return database
  } catch (error) {
    const said = output.slice(-5).join('; ')
    throw new Error(`Cannot open the embedded database: ${said || String(error)}`, { cause: error })
  }
}

/** PGlite runs no checkpointer: otherwise the log, and the recovery after a crash, would grow without limit. */
function maintain(socket: EmbeddedSocket, fs: DurableNodeFS): () => void {
  let checkpointAt = Date.now()
  let fsyncsThen = fs.hostFsyncs
  let fsyncsAtVacuum = fs.hostFsyncs
  let busy = false

  const checkpointIfDue = async () => {
    const written = fs.hostFsyncs - fsyncsThen
    const late = Date.now() - checkpointAt >= CHECKPOINT_INTERVAL_MS
    if (busy || written === 0 || (written < CHECKPOINT_AFTER_FSYNCS && !late)) return
    busy = true
    if (fs.hostFsyncs - fsyncsAtVacuum >= VACUUM_AFTER_TRANSACTIONS) {
      await socket.run('vacuum (freeze, analyze)')
      fsyncsAtVacuum = fs.hostFsyncs
    }
    await socket.run('checkpoint')
    checkpointAt = Date.now()
    fsyncsThen = fs.hostFsyncs
    busy = false
  }
  // Rejects only after PostgreSQL has given up, which onFailure reports. `busy` stays set, so it is not tried again.
  const timer = setInterval(() => checkpointIfDue().catch(() => clearInterval(timer)), MAINTENANCE_INTERVAL_MS).unref()
  return () => clearInterval(timer)
}

/** PGlite runs no autovacuum either. A server that is often restarted would never reach its own count. */
async function vacuumIfDue(database: PGlite): Promise<void> {
  const { rows } = await database.query<{ age: number }>(
    'select pg_catalog.age(datfrozenxid) as age from pg_catalog.pg_database where datname = pg_catalog.current_database()',
  )
  if (Number(rows[0]?.age) >= VACUUM_AFTER_TRANSACTIONS) await database.exec('vacuum (freeze, analyze)')
}

export class ForeignDataDirectoryError extends Error {
  override readonly name = 'ForeignDataDirectoryError'

  constructor(dataDir: string, path: string, { uid, own }: { uid: number; own: number }) {
    const asOwner = `Run it as user ${uid}: sudo -u '#${uid}' eaas …, or runAsUser in Kubernetes. `
    super(
      `${path} belongs to user ${uid}, and this process runs as user ${own}: the files that it leaves in the data directory would ` +
        `lock user ${uid} out. ${uid === 0 ? '' : asOwner}To give the directory to another user, stop the server and chown -R ${dataDir}`,
    )
  }
}

export class MovedInstallationError extends Error {
  override readonly name = 'MovedInstallationError'
}

/** Makes every later opening of the data directory fail, since its log would diverge from the real one. */
export async function markAsMoved(dataDir: string, text: string): Promise<void> {
  const directory = resolve(dataDir)
  await writeFile(join(directory, MOVED_NAME), `${text}\n`, { mode: 0o600, flush: true })
  await syncDirectory(directory)
}

function assertNotMoved(directory: string): void {
  const path = join(directory, MOVED_NAME)
  if (!existsSync(path)) return
  throw new MovedInstallationError(
    `${readFileSync(path, 'utf8').trim()} What is left in ${directory} is old: a server on it would write another log than the real one, and keys that were disabled or destroyed since would work. Set EAAS_DATABASE_URL_FILE to the new database.`,
  )
}

const UNUSABLE: Readonly<Record<string, string>> = {
  EROFS: 'its file system is mounted read-only. Mount it read-write (in a container, as a volume)',
  EACCES: 'this user may not write there. Give the directory to the user that the server runs as (chown)',
  EPERM: 'this user may not write there. Give the directory to the user that the server runs as (chown)',
  ENOSPC: 'its file system is full. Make room',
  ENOENT: 'it does not exist and cannot be created: its file system may be read-only. Create it',
  ENOTDIR: 'a part of the path is a file. Move that file away',
}

export class UnusableDataDirectoryError extends Error {
  override readonly name = 'UnusableDataDirectoryError'

  private constructor(
    message: string,
    readonly code: string,
  ) {
    super(message)
  }

  /** Explains a system error about the directory, naming the variable; undefined for any other error. */
  static of(directory: string, error: unknown, variable = 'EAAS_DATA_DIR'): UnusableDataDirectoryError | undefined {
    const { code = '' } = (error ?? {}) as NodeJS.ErrnoException
    const why = UNUSABLE[code]
    if (why === undefined) return undefined
    return new UnusableDataDirectoryError(
      `The data directory ${directory} cannot be used (${code}): ${why}, or set ${variable} to another one.`,
      code,
    )
  }
}

/** Whether a data directory has a database. @throws ForeignDataDirectoryError if the database is not accessible */
export function hasEmbeddedDatabase(dataDir: string): boolean {
  const directory = resolve(dataDir)
  const cluster = join(directory, CLUSTER)
  if (isCluster(cluster)) return true
  if (existsSync(cluster)) assertOwnDirectory(directory)
  return false
}

const OWN_NAMES = /^(postgres|root\.key|moved|server\.lock\.\d+)$/

/**
 * Refuses a directory with files of another user, who would lose access to what this process adds. The owner of the
 * directory itself, which is root for a volume, is checked if root would create files in an empty one.
 * @throws ForeignDataDirectoryError
 */
export function assertOwnDirectory(dataDir: string): void {
  const own = process.getuid?.()
  if (own === undefined) return
  const names = readdirSync(dataDir).filter((name) => OWN_NAMES.test(name))
  const paths = names.length === 0 && own === 0 ? [dataDir] : names.map((name) => join(dataDir, name))
  for (const path of paths) {
    const uid: number = statSync(path, { throwIfNoEntry: false })?.uid ?? own
    if (uid !== own) throw new ForeignDataDirectoryError(dataDir, path, { uid, own })
  }
}

function makePrivate(directory: string): void {
  createDirectory(directory)
  assertOwnDirectory(directory)
  const { mode, uid } = statSync(directory)
  const isOwn = uid === process.getuid?.() || process.getuid?.() === 0
  if ((mode & 0o077) !== 0 && isOwn) chmodSync(directory, 0o700) // a volume's root directory can be changed only by its owner
}

/** Makes git ignore everything in the directory: otherwise `git add -A` in a surrounding repository stages the root key. */
function keepFromGit(directory: string): void {
  const path = join(directory, '.gitignore')
  // A file with text in it is the owner's; a crash between creating and writing leaves an empty one.
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return
  writeFileSync(path, '*\n', { mode: 0o600 })
}

function crash(error: Error): never {
  throw error
}
