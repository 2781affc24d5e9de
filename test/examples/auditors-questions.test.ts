// The page for auditors: each of its commands is run as it stands there, on a log that has what it asks for.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeHex } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signCheckpoint } from '../../packages/audit/src/formats/checkpoint.js'
import { reportedLog, SIGNED_AT } from '../support/audit/reported-log.js'
import { publicKey, signingKey, TENANT, writeExport } from '../support/audit/written-export.js'
import { runAuditCommand } from '../support/service/command-host.js'

const page = await readFile(new URL('../../packages/audit/docs/auditors-questions.md', import.meta.url), 'utf8')
const commands = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.trimEnd().split('\n'))
/** What each command prints, in their order. */
const ANSWERS = [
  /checkpoint {2}agrees: entry 400/,
  /key\.export .*6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f01.*\n.*\d+ entries of a valid export/s,
  /^The export is valid.*covers the period/,
  /"context\.row":"7".*\n4\d entries of a valid export/s,
  /"context\.row":"7"/,
  /envelope_only\.refused.*\n.*budget\.refused.*\n2 entries of a valid export/,
  /^Rights in tenant .* at 2026-05-03T12:00:00\.000Z/,
  /^The export is valid/,
  /api_key\.create.*\n.*api_key\.update/s,
  /^The export is valid/,
  /key\.destroy .*"step":"completed"/,
  /^Wrote .*: 2 of the entries 1 to 876/,
  /^The proof is valid.*completed/s,
]

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-questions-'))
  const text = [...writeExport(reportedLog(), SIGNED_AT)].join('')
  const { hash } = JSON.parse(text.split('\n')[400] ?? '')
  const kept = { tenant_id: TENANT, last_id: 400, hash: decodeHex(hash), created_at: '2026-04-01T00:00:00.000Z' }
  await writeFile(join(folder, 'acme.ndjson'), text)
  await writeFile(join(folder, 'operator.key'), `${publicKey}\n`)
  await writeFile(join(folder, 'april.checkpoint'), signCheckpoint(signingKey, kept))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe("an auditor's questions", () => {
  it('are nine, each with a command', () => {
    const parts = page.split(/^## /m).filter((part) => /^\d\./.test(part))
    expect(parts.map((part) => [part.slice(0, 2), part.includes('```sh\nnpx @eaas/audit ')])).toEqual(
      Array.from({ length: 9 }, (_, at) => [`${at + 1}.`, true]),
    )
    expect(commands.length).toBe(ANSWERS.length)
  })

  // One after another: a later command reads what an earlier one wrote.
  it('are answered by the commands of the page', async () => {
    for (const [at, command] of commands.entries()) {
      const [npx, name, ...args] = command.split(' ')
      expect([npx, name]).toEqual(['npx', '@eaas/audit'])
      const given = args.map((arg) =>
        /^[\w.-]+\.(ndjson|key|checkpoint|html|proof)$|^acme-\w+$/.test(arg) ? join(folder, arg) : arg,
      )
      const ended = await runAuditCommand(given)
      expect([command, ended.code, ended.stderr]).toEqual([command, 0, ''])
      expect(ended.stdout).toMatch(ANSWERS[at] ?? /^$/)
    }
    expect(await readFile(join(folder, 'acme-keys/keys.csv'), 'utf8')).toContain('"overdue_days"')
    expect(await readFile(join(folder, 'acme-rights/rights-changes.csv'), 'utf8')).toContain('"permissions gained"')
  })
})
