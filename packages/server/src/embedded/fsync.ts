// PGlite's file system on the host's disk. PostgreSQL requests an fsync at each commit, but Emscripten's NODEFS has no
// such operation and answers "done"; its fdatasync, PostgreSQL's default on Linux, never even reaches the file system.
// So this adds the operation, and starts PostgreSQL with the settings that lead to it.
import { fsyncSync } from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'

/** Errno numbers as Emscripten's libc has them: WASI's, not the host's (wasi-libc, `__errno_values.h`). */
const WASI_ERRNO: Record<string, number> = { EBADF: 8, EINVAL: 28, EIO: 29, ENOSPC: 51, EROFS: 69, EDQUOT: 19 }

/** The part of Emscripten's module that is used here; PGlite's own types say `any`. */
interface EmscriptenModule {
  FS: {
    ErrnoError: new (errno: number) => Error
    filesystems: { NODEFS: { stream_ops: { fsync?: (stream: { nfd: number }) => number } } }
  }
}

/** Start parameters under which each commit waits for an fsync: PGlite's own without `-F`, which turns fsync off. */
export const DURABLE_START_PARAMS: readonly string[] = [
  ...PGlite.defaultStartParams.filter((param) => param !== '-F'),
  ...['-c', 'fsync=on', '-c', 'synchronous_commit=on', '-c', 'full_page_writes=on', '-c', 'wal_sync_method=fsync'],
]

/** A directory of the host as PGlite's file system, on which PostgreSQL's fsync is the host's. */
export class DurableNodeFS extends NodeFS {
  hostFsyncs = 0
  /** Why PostgreSQL gave up: a failed fsync, a full disk. PGlite must not be called again, since it would spin forever. */
  failure: Error | undefined

  override async init(...[database, options]: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(database, options)
    const addFsync = (module: EmscriptenModule) => {
      module.FS.filesystems.NODEFS.stream_ops.fsync = (stream) => this.#fsync(stream.nfd, module)
    }
    return {
      emscriptenOpts: {
        ...emscriptenOpts,
        preRun: [emscriptenOpts.preRun ?? [], addFsync].flat(),
        onAbort: (what: unknown) => {
          this.failure ??= new EmbeddedStoppedError(String(what) || 'aborted')
        },
      },
    }
  }

  #fsync(fd: number, module: EmscriptenModule): number {
    try {
      fsyncSync(fd)
    } catch (error) {
      // PostgreSQL understands an errno, and panics instead of assuming that the data is safe.
      const { code = 'EIO' } = error as NodeJS.ErrnoException
      throw new module.FS.ErrnoError(WASI_ERRNO[code] ?? WASI_ERRNO.EIO ?? 29)
    }
    this.hostFsyncs++
    return 0
  }
}

/** Whether a commit leads to an fsync of the host. Detects, at the start, a PGlite whose internals changed. */
export async function commitsReachTheDisk(database: PGlite, fs: DurableNodeFS): Promise<boolean> {
  const before = fs.hostFsyncs
  await database.query(`select pg_logical_emit_message(true, 'eaas', 'fsync self-test')`)
  return fs.hostFsyncs > before
}

export class EmbeddedStoppedError extends Error {
  override readonly name = 'EmbeddedStoppedError'

  /** @param what PostgreSQL's own name for the condition */
  constructor(what: string) {
    super(
      `The embedded PostgreSQL stopped (${what}), because it could not write to the disk, or for a fault of its own. What it ` +
        'acknowledged is kept. If the disk is full, make room, and start again.',
    )
  }
}
