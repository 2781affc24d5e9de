/** `eaas-audit verify-archive`: verifies the archives of purges in a directory, joined log by log. */
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { listTexts } from '@eaas/protocol'
import type { Command } from 'commander'
import { CheckpointError } from '../formats/signed-note.js'
import { unlessThrown } from '../unless-thrown.js'
import { ExportFault, readHeader, readTrailer } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import { type ExportVerdict, readSigned } from '../verify/verify-export.js'
import { assertFile, CommandError } from './files.js'
import * as cli from './options.js'
import { print, printJson, table } from './output.js'
import { readFirstLine, verifyFiles } from './verify-files.js'

type VerifyArchiveCommand = { publicKey?: string; json: boolean }

interface Archive {
  path: string
  tenant_id: string
  after_id: number
  /** the last entry, according to the signed end of the file */
  through_id: number
}

/** Longer than any last line. */
const END_BYTES = 65_536

export function addVerifyArchive(program: Command): void {
  program
    .command('verify-archive')
    .description(
      'Verify the archives of purges in a directory: those of each log must be as the server wrote them, with none missing in between. Exit code 1 if one is not valid or missing, 4 if a log does not begin with entry 1, 6 if the key that signed was not given. A log may continue after its last archive.',
    )
    .argument('<dir>', 'the directory, as EAAS_AUDIT_ARCHIVE_DIR names it', cli.readKeptPath)
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in each archive)')
    .addOption(cli.JSON_OPTION)
    .action((folder: string, options: VerifyArchiveCommand, command: Command) =>
      cli.judge(async () => verifyArchive(folder, await cli.withKey(options, command))),
    )
}

/** Verifies one log after another. Returns 1 if one is not valid, or else the highest exit code that applies. */
async function verifyArchive(folder: string, { json, ...trusted }: VerifyArchiveCommand): Promise<number> {
  const { archives: found, spoilt } = await listArchives(folder)
  const logs = byTenant(found)
  const verdicts: LogVerdict[] = spoilt
  for (const [tenant_id, archives] of logs) {
    const { verdict } = await verifyFiles(
      archives.map(({ path }) => path),
      trusted,
    )
    verdicts.push({ ...verdict, tenant_id, archives: archives.length })
  }
  if (json) for (const verdict of verdicts) printJson(verdict)
  else print(...table(['TENANT', 'ARCHIVES', 'ENTRIES', 'SIGNED', 'RESULT'], verdicts.map(describe)))
  const codes = verdicts.map(exitCode)
  return codes.includes(cli.NOT_VALID) ? cli.NOT_VALID : Math.max(...codes)
}

type LogVerdict = { tenant_id: string; archives: number } & ExportVerdict

function byTenant(archives: readonly Archive[]): Map<string, Archive[]> {
  const logs = new Map<string, Archive[]>()
  for (const archive of archives.toSorted((a, b) => a.through_id - b.through_id || a.after_id - b.after_id))
    logs.set(archive.tenant_id, [...(logs.get(archive.tenant_id) ?? []), archive])
  return logs
}

const SPOILT = { tenant_id: '?', archives: 1, valid: false, verified_entries: 0, trusted_key: false, line: 1 }

/** Lists the archives of a directory, and verdicts on the files whose first line cannot be read. */
async function listArchives(folder: string): Promise<{ archives: Archive[]; spoilt: LogVerdict[] }> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${folder}: it cannot be read as a directory (${error.code})`)
  })
  const files = names.filter((name) => name.endsWith('.ndjson')).sort()
  if (files.length === 0) throw new CommandError(`${folder} has no archive: no file whose name ends in .ndjson`)
  const archives: Archive[] = []
  const spoilt: LogVerdict[] = []
  for (const name of files) {
    try {
      archives.push(await readArchive(join(folder, name)))
    } catch (error) {
      if (!(error instanceof ExportFault)) throw error
      spoilt.push({ ...SPOILT, reason: `${name}: ${error.reason}` })
    }
  }
  return { archives, spoilt }
}

async function readArchive(path: string): Promise<Archive> {
  await assertFile(path)
  const found = await stat(path)
  if (!found.isFile()) throw new CommandError(`${path} is not an archive: it is not a regular file`)
  const { tenant_id, after_id } = readHeader(await readFirstLine(path))
  return { path, tenant_id, after_id, through_id: (await readEnd(path, found.size)) ?? after_id }
}

/** Reads the signed id of a file's last entry. If it is undefined, verification refuses the file. */
async function readEnd(path: string, size: number): Promise<number | undefined> {
  let last = ''
  for await (const line of splitLines(createReadStream(path, { start: Math.max(0, size - END_BYTES) }))) last = line
  return unlessThrown(() => readSigned(readTrailer(last)).last_id, ExportFault, CheckpointError)
}

function exitCode({ valid, missing = [], trusted_key }: ExportVerdict): number {
  if (!valid) return cli.NOT_VALID
  return Math.max(missing.includes('beginning') ? cli.PART : cli.VALID, trusted_key ? cli.VALID : cli.UNTRUSTED_KEY)
}

function describe(verdict: LogVerdict): string[] {
  const { valid, tenant_id, archives, after_id = 0, last_id, signed_at, missing = [], reason } = verdict
  const result = listTexts(
    valid ? 'valid' : `NOT valid: ${reason}`,
    valid && missing.includes('beginning') && `PART: nothing through entry ${after_id}`,
    valid && !verdict.trusted_key && 'WARNING: the key was not given',
  )
  const entries = last_id === undefined ? 'none' : `${after_id + 1} to ${last_id}`
  return [tenant_id, String(archives), entries, signed_at ?? '', result.join('; ')]
}
