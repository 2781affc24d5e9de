// `eaas-audit report` and `eaas-audit entries` as an auditor runs them: files, exit codes, usage errors.
import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createWriteStream, existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  CLERK,
  ERASED,
  FORMULA,
  HOSTILE,
  ORDERS,
  OWNER,
  PURGED_THROUGH,
  purgedLog,
  reportedLog,
  SHOP,
  SIGNED_AT,
} from '../../../../test/support/audit/reported-log.js'
import { cutExport, publicKey, TENANT, writeExport } from '../../../../test/support/audit/written-export.js'
import { rounds } from '../../../../test/support/run/rounds.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'

const PERIOD = ['--from', '2026-02-01T00:00:00Z', '--to', '2026-07-01T00:00:00Z']
const KEY = ['--public-key', publicKey]
const EAAS_AUDIT = fileURLToPath(new URL('../../bin/eaas-audit.mjs', import.meta.url))

let folder: string
let file: string
let number = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-report-'))
  file = join(folder, 'acme.ndjson')
  await writeFile(file, [...writeExport(reportedLog(), SIGNED_AT)].join(''))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const fresh = (name: string) => join(folder, `${++number}-${name}`)

describe('eaas-audit report', () => {
  it('writes the page, the tables and the JSON, which only the user may read', async () => {
    const [html, csv, json] = [fresh('report.html'), fresh('csv'), fresh('report.json')]
    const args = ['report', file, ...PERIOD, ...KEY, '--html', html, '--csv', csv, '--json', json]
    expect(await runAuditCommand(args)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^The export is valid/),
    })
    const sha256 = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
    expect(await readFile(html, 'utf8')).toContain(`acme.ndjson, SHA-256 ${sha256}`)
    expect(await readdir(csv)).toContain('access-by-person.csv')
    expect(JSON.parse(await readFile(json, 'utf8'))).toMatchObject({ covers_period: true })
    for (const path of [html, json]) expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  it('makes the same page again by the command that the page names', async () => {
    const names = fresh('names.json')
    await writeFile(names, JSON.stringify({ [TENANT]: "acme's" }))
    const first = fresh('report.html')
    const given = ['report', file, ...PERIOD, ...KEY, '--tenant-names', names]
    await runAuditCommand([...given, '--html', first])
    const page = await readFile(first, 'utf8')
    expect(page).toContain(`acme&#39;s, ${TENANT}`)
    const [, command = ''] = /<dt>Made again by<\/dt><dd>([^<]+)</.exec(page) ?? []
    const args = command.split(' ').slice(2, -1) // no part of it is quoted
    const second = fresh('report.html')
    await runAuditCommand([...args, second])
    expect(await readFile(second, 'utf8')).toBe(page)
  })

  it('takes the whole period of the export for what was not given', async () => {
    const json = fresh('report.json')
    expect(await runAuditCommand(['report', file, ...KEY, '--json', json])).toMatchObject({ code: 0, stderr: '' })
    const { covers_period, evidence } = JSON.parse(await readFile(json, 'utf8'))
    const [first] = reportedLog()
    const end = new Date(Date.parse(SIGNED_AT) + 1).toISOString()
    expect([covers_period, evidence.facts]).toEqual([
      true,
      expect.arrayContaining([{ name: 'Period', text: `from ${first?.created_at} until before ${end}` }]),
    ])
    const half = fresh('half.json')
    const args = ['report', file, ...KEY, '--from', '2026-03-01T00:00:00Z', '--json', half]
    expect(await runAuditCommand(args)).toMatchObject({ code: 0 })
    expect(await readFile(half, 'utf8')).toContain(`from 2026-03-01T00:00:00.000Z until before ${end}`)
  })

  it('covers the whole period of an export whose beginning was purged, but not of one that was cut', async () => {
    const [cut, purged] = [fresh('cut.ndjson'), fresh('purged.ndjson')]
    const [begin = '', rest = ''] = cutExport([...writeExport(purgedLog(), SIGNED_AT)], [PURGED_THROUGH], SIGNED_AT)
    await writeFile(cut, begin)
    await writeFile(purged, rest)
    const report = (log: string) => runAuditCommand(['report', log, ...KEY, '--json', fresh('x.json')])
    expect([(await report(cut)).code, (await report(purged)).code]).toEqual([4, 0])
    const altered = fresh('altered.ndjson')
    await writeFile(altered, (await readFile(file, 'utf8')).split('\n').toSpliced(2, 1).join('\n'))
    expect(await report(altered)).toMatchObject({ code: 1, stderr: '' })
  })

  it('ends with 4 if the export ends before the period does, and says so in the page', async () => {
    const html = fresh('report.html')
    const args = ['report', file, '--from', '2026-02-01T00:00:00Z', '--to', '2026-08-01T00:00:00Z', ...KEY]
    expect(await runAuditCommand([...args, '--html', html])).toMatchObject({ code: 4 })
    expect(await readFile(html, 'utf8')).toContain('which is before the end of the period')
  })

  describe('of a log with a rollback that an operator accepted', () => {
    const rolledBackLog = async () => {
      const rolledBack = fresh('rolled-back.ndjson')
      const told = { agrees_through: 0, policy_version: 1, reason: 'restored', witnessed_id: 9_999 }
      const accepted = { action: 'audit.rollback_accepted', created_at: SIGNED_AT, metadata: told }
      await writeFile(rolledBack, [...writeExport([...reportedLog(), accepted], SIGNED_AT)].join(''))
      return rolledBack
    }
    const said = 'an operator accepted at '

    it('ends with 4', async () => {
      const args = ['report', await rolledBackLog(), ...PERIOD, ...KEY, '--html', fresh('report.html')]
      expect(await runAuditCommand(args)).toMatchObject({
        code: 4,
        stdout: expect.stringContaining(`; but entries of the period may be lost: by entry `),
      })
    })

    it('has a line below the entries of a time of which some may be lost', async () => {
      const log = await rolledBackLog()
      const entries = (...args: string[]) =>
        runAuditCommand(['entries', log, ...KEY, '--action', 'tenant.restate', ...args])
      const { code, stdout } = await entries(...PERIOD)
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/^0 entries of a valid export\.\nLOST {2}entries of this time may be lost: by entry /),
      ])
      expect((await entries()).stdout).toContain(said)
      const later = ['--from', new Date(Date.parse(SIGNED_AT) + 1).toISOString()]
      expect((await entries(...later)).stdout).not.toContain(said)
      expect(JSON.parse((await entries('--json')).stdout)).toMatchObject({
        entries: 0,
        losses: [{ lost_through: 9_999 }],
      })
      expect(JSON.parse((await entries(...later, '--json')).stdout)).not.toHaveProperty('losses')
    })
  })

  it('ends with 1 if the export does not verify, and the page then has nothing but that', async () => {
    const altered = fresh('altered.ndjson')
    await writeFile(altered, (await readFile(file, 'utf8')).replace('ada@example.com', 'eve@example.com'))
    const html = fresh('report.html')
    const ended = await runAuditCommand(['report', altered, ...PERIOD, ...KEY, '--html', html])
    expect(ended).toMatchObject({ code: 1, stdout: expect.stringContaining('NOT valid') })
    const page = await readFile(html, 'utf8')
    expect(page).not.toContain('<table')
    expect(page).toContain(
      createHash('sha256')
        .update(await readFile(altered))
        .digest('hex'),
    )
  })

  it('ends with 1 if a time in the export does not exist', async () => {
    const forged = fresh('forged.ndjson')
    const unwrap = { action: 'key.unwrap', created_at: '2026-13-01T00:00:00.000Z', key_id: ORDERS, key_version: 1 }
    await writeFile(forged, [...writeExport([...reportedLog(), unwrap], SIGNED_AT)].join(''))
    const period = ['--from', '2026-02-01T00:00:00Z', '--to', '2027-07-01T00:00:00Z']
    for (const given of [period, []]) {
      const ended = await runAuditCommand(['report', forged, ...given, '--html', fresh('report.html')])
      expect(ended).toMatchObject({ code: 1, stdout: expect.stringContaining('NOT valid'), stderr: '' })
    }
  })

  it('ends with 6 without the key, which only the file itself vouches for', async () => {
    expect(await runAuditCommand(['report', file, ...PERIOD, '--html', fresh('report.html')])).toMatchObject({
      code: 6,
    })
  })

  it('reads a log of any length in 32 MB: 44,000 entries, nearly a million in the slow suite', async () => {
    const [long, html] = [fresh('long.ndjson'), fresh('report.html')]
    await pipeline(Readable.from(writeExport(reportedLog(rounds(60, 1_230)), SIGNED_AT)), createWriteStream(long))
    const args = ['--max-old-space-size=32', EAAS_AUDIT, 'report', long, ...PERIOD, ...KEY, '--html', html]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    expect(stdout).toMatch(/^The export is valid: each of its \d{5,6} entries/)
    expect((await stat(html)).size).toBeLessThan(1_000_000)
  })

  it('overwrites nothing', async () => {
    const html = fresh('report.html')
    await writeFile(html, 'mine')
    const ended = await runAuditCommand(['report', file, ...PERIOD, ...KEY, '--html', html])
    expect(ended).toMatchObject({ code: 3, stderr: expect.stringContaining('is not overwritten') })
    expect(await readFile(html, 'utf8')).toBe('mine')
  })

  it('writes none of its outputs if one of them cannot be written', async () => {
    const [html, json] = [fresh('report.html'), fresh('report.json')]
    const args = ['report', file, ...PERIOD, ...KEY, '--html', html, '--json', json, '--csv', fresh('gone/csv')]
    expect(await runAuditCommand(args)).toMatchObject({ code: 3, stderr: expect.stringContaining('ENOENT') })
    expect([existsSync(html), existsSync(json)]).toEqual([false, false])
  })

  it.each([[['--from', '2030-01-01T00:00:00Z']], [['--to', '2020-01-01T00:00:00Z']]])(
    'refuses a period beside that of the export: %j',
    async (period) => {
      const args = ['report', file, ...period, ...KEY, '--html', fresh('x.html')]
      const [first] = reportedLog()
      const message = `from ${first?.created_at} to ${SIGNED_AT}, and the period has none of it`
      expect(await runAuditCommand(args)).toMatchObject({ code: 3, stderr: expect.stringContaining(message) })
    },
  )

  it.each([
    ['without an output', ['--from', '2026-01-01T00:00:00Z', '--to', '2026-02-01T00:00:00Z'], 'give at least one of'],
    [
      'with a period that is none',
      ['--from', '2026-02-01T00:00:00Z', '--to', '2026-02-01T00:00:00Z', '--html', 'x'],
      "'--to' must be after",
    ],
    ['with one path for two outputs', [...PERIOD, '--html', 'x', '--json', './x'], 'a path of its own'],
    ['with a pipe, but no period', ['--html', 'x', '/dev/null'], "give '--from' and '--to'"],
    ['with a date without a time', ['--from', '2026-02-01', '--to', '2026-02-02', '--html', 'x'], 'RFC 3339'],
    ['with a checkpoint, but no key', [...PERIOD, '--html', 'x', '--checkpoint', 'x'], "needs '--public-key'"],
  ])('is a usage error %s', async (_, args, message) => {
    expect(await runAuditCommand(['report', file, ...args])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(message),
    })
  })

  it('says what is wrong with a path that leads nowhere, with and without a period', async () => {
    for (const given of [PERIOD, []]) {
      const command = ['report', join(file, 'below'), ...given, '--html', fresh('none.html')]
      expect(await runAuditCommand(command)).toMatchObject({
        code: 3,
        stderr: expect.stringMatching(/below: a part of the path is no directory$/m),
      })
    }
  })

  it.each(['[]', '{"x":"y"}', `{"${TENANT}":1}`, 'x'])('refuses names that are none: %s', async (text) => {
    const names = fresh('names.json')
    await writeFile(names, text)
    const args = ['report', file, ...PERIOD, ...KEY, '--tenant-names', names, '--html', fresh('x.html')]
    expect(await runAuditCommand(args)).toMatchObject({ code: 3, stderr: expect.stringContaining('names must be') })
  })
})

describe('eaas-audit entries', () => {
  const entries = async (...args: string[]) => {
    const { code, stdout } = await runAuditCommand(['entries', file, ...KEY, ...args])
    return { code, lines: stdout.trimEnd().split('\n') }
  }

  it('prints what happened to a key', async () => {
    const { code, lines } = await entries('--key', ERASED)
    expect(code).toBe(0)
    expect(lines.slice(0, -1).map((line) => line.split(/ +/)[2])).toEqual([
      'ACTION',
      'key.create',
      'key.disable',
      'key.destroy',
      'key.destroy',
    ])
    expect(lines.at(-1)).toBe('4 entries of a valid export.')
  })

  it('prints the names that a key and an API key had at the time of the entry', async () => {
    const { lines } = await entries('--key', ORDERS, '--to', '2026-01-10T00:00:00Z')
    expect(lines[1]).toMatch(new RegExp(`key.create +${ORDERS}  shop/orders  1 +${OWNER}  owner `))
    expect(lines.find((line) => line.includes('key.unwrap'))).toContain(
      `${SHOP}  <img src=x onerror=alert(1)>\\u200b\\u0020  `,
    )
    const json = await entries('--metadata', `api_key_id=${CLERK}`, '--json')
    const found = json.lines.slice(0, -1).map((line) => JSON.parse(line))
    expect(found.map(({ actor_name, key_name }) => [actor_name, key_name])).toEqual(Array(2).fill(['owner', null]))
  })

  it('prints what one person opened, by any name that an application gave them', async () => {
    for (const user of [FORMULA, HOSTILE]) {
      const { lines } = await entries(
        '--user',
        user,
        '--action',
        'key.unwrap',
        '--from',
        '2026-05-05T00:00:00Z',
        '--to',
        '2026-05-06T00:00:00Z',
        '--json',
      )
      const found = lines.slice(0, -1).map((line) => JSON.parse(line))
      expect(found.length).toBeGreaterThan(5)
      for (const { metadata, created_at } of found) {
        expect(JSON.parse(metadata).on_behalf_of).toBe(user)
        expect(created_at).toMatch(/^2026-05-05/)
      }
      expect(JSON.parse(lines.at(-1) ?? '')).toEqual({ valid: true, entries: found.length, trusted_key: true })
    }
  })

  it('is named in a page so that a shell reads the command as it is meant', async () => {
    const html = fresh('report.html')
    await runAuditCommand(['report', file, ...PERIOD, ...KEY, '--html', html])
    const page = await readFile(html, 'utf8')
    const [, escaped = ''] = /<code>npx @eaas\/audit entries (acme[^<]*=cmd[^<]*)<\/code>/.exec(page) ?? []
    const command = escaped.replaceAll('&#39;', "'")
    const args = spawnSync('sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' }).stdout.split('\0')
    expect(args).toContain(`--user=${FORMULA}`)
    const { lines } = await entries(...args.slice(1, -1), '--json')
    expect(JSON.parse(lines.at(-1) ?? '').entries).toBeGreaterThan(5)
  })

  it('prints who opened a record, by the context that the call stated', async () => {
    const { lines } = await entries(
      '--context',
      'model=customers',
      '--context',
      'row=7',
      '--to',
      '2026-06-01T00:00:00Z',
    )
    expect(lines.length).toBeGreaterThan(3)
    for (const line of lines.slice(1, -1)) expect(line).toContain('"context.row":"7"')
  })

  it('prints what was refused', async () => {
    const { lines } = await entries('--api-key', SHOP, '--without-user')
    expect(lines.slice(1, -1).map((line) => line.split(/ +/)[2])).toEqual(['envelope_only.refused', 'budget.refused'])
  })

  it('prints none of a known action that the log does not have, and those of an action that only a newer server writes', async () => {
    expect(await entries('--action', 'tenant.restate')).toEqual({ code: 0, lines: ['0 entries of a valid export.'] })
    const newer = fresh('newer.ndjson')
    const drafts = [...reportedLog(), { action: 'audit.invented', created_at: SIGNED_AT }]
    await writeFile(newer, [...writeExport(drafts, SIGNED_AT)].join(''))
    const { code, stdout } = await runAuditCommand(['entries', newer, ...KEY, '--action', 'audit.invented'])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/\n1 entry of a valid export\.\n$/)])
  })

  it('says that entries of an export that does not verify prove nothing, and ends with 1', async () => {
    const altered = fresh('altered.ndjson')
    await writeFile(altered, (await readFile(file, 'utf8')).replace(/"192.0.2.9"/, '"192.0.2.8"'))
    const ended = await runAuditCommand(['entries', altered, ...KEY, '--key', ERASED])
    expect(ended).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('NOT valid, so these entries prove nothing'),
    })
  })

  it.each([
    ['a key that is no id', ['--key', 'x'], 'It must be a UUID'],
    ['a context that is no pair', ['--context', 'row'], 'must be <name>=<value>'],
    ['a user and none', ['--user', 'a', '--without-user'], 'exclude each other'],
    [
      'an action that was mistyped',
      ['--action', 'key.wrap', '--action', 'key.unwarp'],
      'key.unwarp is no known action, and no entry of the export has it. Give one of key.wrap, key.unwrap, ',
    ],
  ])('has a usage error for %s', async (_, args, message) => {
    expect(await runAuditCommand(['entries', file, ...args])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(message),
    })
  })
})
