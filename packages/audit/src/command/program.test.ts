// What a command ends with when its output cannot be written: a full disk, or a reader that leaves early.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERASED, reportedLog, SIGNED_AT } from '../../../../test/support/audit/reported-log.js'
import { publicKey, writeExport } from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'

const EAAS_AUDIT = fileURLToPath(new URL('../../bin/eaas-audit.mjs', import.meta.url))
const KEY = `--public-key '${publicKey}'`

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-program-'))
  const text = [...writeExport(reportedLog(), SIGNED_AT)].join('')
  await writeFile(join(folder, 'log'), text)
  await writeFile(join(folder, 'altered'), text.replace('192.0.2.9', '192.0.2.8'))
  await runAuditCommand(['prove', join(folder, 'log'), '7', '--out', join(folder, 'proof')])
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs a script of bash in which `eaas-audit` is the command. */
function script(text: string): Promise<{ stdout: string; stderr: string }> {
  const command = `eaas-audit() { '${process.execPath}' '${EAAS_AUDIT}' "$@"; }`
  return promisify(execFile)('bash', ['--norc', '-c', `${command}; ${text}`], { cwd: folder })
}

describe.skipIf(!existsSync('/dev/full'))('onto a full disk', () => {
  it.each([
    ['verify log', 3],
    ['verify log --json', 3],
    ['verify altered', 1],
    [`entries log --key ${ERASED}`, 3],
    [`rights log --at ${SIGNED_AT}`, 3],
    ['verify-proof proof', 3],
  ])('%s says that it could not write, and ends with %d', async (command, code) => {
    const { stdout, stderr } = await script(`eaas-audit ${command} ${KEY} > /dev/full; echo "$?"`)
    expect([stdout, stderr]).toEqual([`${code}\n`, 'eaas-audit: standard output cannot be written (ENOSPC)\n'])
  })

  it('report blames no file for it, and writes none', async () => {
    const command = `report log --from 2026-02-01T00:00:00Z --to 2026-07-01T00:00:00Z --html lost.html --json - ${KEY}`
    const { stdout, stderr } = await script(`eaas-audit ${command} > /dev/full; echo "$?"`)
    expect([stdout, stderr]).toEqual([
      '3\n',
      'eaas-audit: standard output cannot be written (ENOSPC)\neaas-audit: standard output did not take the result (ENOSPC)\n',
    ])
    expect(existsSync(join(folder, 'lost.html'))).toBe(false)
  })
})

describe('onto a disk that has room for a part', () => {
  it('entries says that it could not write, and ends with 3', async () => {
    // A limit of 1 KiB behaves as such a disk does: the system takes what fits, and calls that a success.
    const command = `(ulimit -f 1; trap '' XFSZ; eaas-audit entries log ${KEY} > entries; echo "$?")`
    const { stdout, stderr } = await script(command)
    expect((await stat(join(folder, 'entries'))).size).toBe(1_024)
    expect([stdout, stderr]).toEqual(['3\n', 'eaas-audit: standard output cannot be written (EFBIG)\n'])
  })
})

describe('into files on a disk that has room for a part', () => {
  it.each([
    ['report log --from 2026-02-01T00:00:00Z --to 2026-07-01T00:00:00Z --html', 'report.html'],
    ['report log --from 2026-02-01T00:00:00Z --to 2026-07-01T00:00:00Z --csv', 'tables/'],
    ['prove log 7 8 9 --out', 'proof'],
  ])('%s leaves nothing there, and names what it could not write', async (command, name) => {
    const into = join(folder, 'into')
    await rm(into, { recursive: true, force: true })
    await mkdir(into)
    const limited = `(ulimit -f 1; trap '' XFSZ; eaas-audit ${command} into/${name} ${KEY}; echo "$?")`
    const { stdout, stderr } = await script(limited)
    const path = resolve(into, name)
    expect([stdout, stderr]).toEqual([
      '3\n',
      expect.stringContaining(`eaas-audit: ${path} cannot be written (EFBIG), and nothing was.`),
    ])
    expect(await readdir(into)).toEqual([])
  })
})

describe('to a reader that leaves early', () => {
  it('entries says nothing, and ends with what it found', async () => {
    const { stdout, stderr } = await script(`eaas-audit entries log ${KEY} | head -c 2; echo "\${PIPESTATUS[0]}"`)
    expect([stdout, stderr]).toEqual(['EN0\n', ''])
  })
})
