// CSV as files have it: kinds of line breaks, cells that are null, records that are too long. On a service in
// memory.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createClient } from '@eaas/sdk'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cell, CsvReader, writeRow } from './csv.js'
import { useFiles } from './test-support/command.js'

const CHOICE = ['--key', 'files', '--model', 'users', '--columns', 'name', '--bind', 'id']

const files = useFiles('eaas-cli-csv')
const { folder } = files

const command = (argv: string[], input: string | Readable) => files.command(argv, { input })

async function done(argv: string[], input: string): Promise<string> {
  const { code, err, out } = await command(argv, input)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return String(out)
}

/** Encrypts a file and decrypts it. */
async function andBack(csv: string, choice: readonly string[] = CHOICE): Promise<{ sealed: string; back: string }> {
  const sealed = await done(['encrypt-csv', ...choice], csv)
  return { sealed, back: await done(['decrypt-csv', ...choice], sealed) }
}

function read(text: string, parts: readonly number[] = [], delimiter = ','): Cell[][] {
  const reader = new CsvReader(delimiter)
  const characters = [...text] // a decoder splits no character
  const cuts = [0, ...parts.map((part) => part % (characters.length + 1)).sort((a, b) => a - b), characters.length]
  const pieces = cuts.map((cut, at) => characters.slice(cuts[at - 1] ?? 0, cut).join(''))
  return [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()]
}

describe('a reader of CSV', () => {
  it('reads what was written, wherever the parts are cut', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '😀', ',', '"', '\r', '\n', ' ') })
    const rows = fc.array(fc.array(fc.option(text), { minLength: 2, maxLength: 4 }), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(
        rows,
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.array(fc.nat(200)),
        fc.constantFrom(',', '\t', '😀'),
        (rows, lineBreak, parts, delimiter) => {
          const written = rows.map((row) => writeRow(row, { delimiter, lineBreak })).join('')
          expect(read(written, parts, delimiter)).toEqual(rows)
        },
      ),
    )
  })

  it('names the line of a fault, whatever the line breaks are', () => {
    for (const lineBreak of ['\n', '\r\n', '\r']) {
      const text = ['a,b', '"1', '2",x', '3,y"z'].join(lineBreak)
      expect(() => read(text)).toThrow('line 4: a quote stands within a cell')
      expect(() => read(`a,b${lineBreak}1,"x${lineBreak}2,y`)).toThrow('line 2: a quote is never closed')
    }
  })
})

describe('encrypt-csv', () => {
  it.each(['\n', '\r\n', '\r'])(
    'keeps the line breaks %j, also where the header has another kind in quotes',
    async (lineBreak) => {
      const csv = ['id,name,"a\r\nb\nc"', '1,Ada,x', '2,Ben,y', ''].join(lineBreak)
      const { sealed, back } = await andBack(csv)
      expect(sealed.endsWith(lineBreak)).toBe(true)
      expect(back).toBe(csv)
    },
  )

  it('takes names with commas and quotes as CSV writes them', async () => {
    const csv = 'id,"last, first","say ""x"""\n1,"Lovelace, Ada",y\n'
    const choice = ['--key', 'files', '--model', 'm', '--columns', '"last, first","say ""x"""', '--bind', 'id']
    const { sealed, back } = await andBack(csv, choice)
    expect(sealed).not.toContain('Lovelace')
    expect(back).toBe(csv)
    const wrong = await command(['encrypt-csv', '--key', 'files', '--model', 'm', '--columns', '"a,b'], csv)
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('--columns takes names with commas between') })
  })

  it('leaves quotes of other columns around an empty text, which COPY of PostgreSQL tells from NULL', async () => {
    const csv = 'id,name,city,town\n1,Ada,"",\n'
    expect((await andBack(csv)).back).toBe(csv)
  })

  it('keeps NULL and an empty text apart with --empty-is-null', async () => {
    const csv = 'id,name,mail\n1,,""\n2,"",\n3,Ada,a\n'
    const choice = [
      '--key',
      'files',
      '--model',
      'users',
      '--columns',
      'name,mail',
      '--index',
      'mail',
      '--bind',
      'id',
      '--empty-is-null',
    ]
    const { sealed, back } = await andBack(csv, choice)
    expect(back).toBe(csv)
    expect(
      sealed.split('\n').map((line) => line.replaceAll(/eaas\.[\w.-]+/g, 'E').replaceAll(/[0-9a-f]{64}/g, 'H')),
    ).toEqual(['id,name,mail,mail_index', '1,,E,H', '2,E,,', '3,E,E,H', ''])
    const plain = await andBack('id,name\n1,\n2,""\n')
    expect(plain.sealed.match(/eaas\./g)).toHaveLength(2) // without the option, both are an empty text
    expect(plain.back).toBe('id,name\n1,\n2,\n')
    const removed = sealed.replace(/^3,[^,]*/m, '3,')
    expect(await command(['decrypt-csv', ...choice], removed)).toMatchObject({ code: 0 })
    expect(await command(['decrypt-csv', ...choice.slice(0, -1)], removed)).toMatchObject({
      code: 2,
      err: 'eaas-cli: row 1, column "name": the cell is empty. Pass --empty-is-null, if encrypt-csv had it.\n',
    })
    const quoted = await command(['decrypt-csv', ...choice], removed.replace(/^3,/m, '3,""'))
    expect(quoted).toMatchObject({ code: 2, err: expect.stringContaining('row 3, column "name": not an envelope') })
  })

  it('refuses to encrypt a cell twice, and names it', async () => {
    const rows = Array.from({ length: 1_100 }, (_, at) => `${at},n${at}`)
    const sealed = (await done(['encrypt-csv', ...CHOICE], 'id,name\n1,Ada\n')).split('\n')[1]
    const csv = ['id,name', ...rows, sealed, ''].join('\n')
    const { code, err } = await command(['encrypt-csv', ...CHOICE], csv)
    expect({ code, err }).toEqual({
      code: 2,
      err: 'eaas-cli: row 1101, column "name": it is encrypted already; leave the column out of --columns\n',
    })
  })

  it('names the row of the file that the SDK refuses, and not one of a block', async () => {
    const rows = Array.from({ length: 1_100 }, (_, at) => `${at},n${at}`)
    const noId = await command(['encrypt-csv', ...CHOICE], ['id,name', ...rows, ',Ada', ''].join('\n'))
    expect(noId).toMatchObject({ code: 2, err: expect.stringMatching(/^eaas-cli: row 1101, column "id": /) })
    const plain = await command(['decrypt-csv', ...CHOICE], 'id,name\n1,Ada\n')
    expect(plain).toMatchObject({ code: 2, err: expect.stringMatching(/^eaas-cli: row 1, column "name": /) })
    for (const { err } of [noId, plain]) expect(err).not.toMatch(/record|Ada/)
  })

  it.each([
    [
      'a quote that is never closed',
      'id,name\n1,Ada\n2,"',
      'x'.repeat(60_000),
      'line 3: the record is longer than 8 MiB: a quote',
    ],
    ['a header', 'id,name', `,${'x'.repeat(60_000)}`, 'line 1: the record is longer than 8 MiB\n'],
    ['many cells', 'id,name\n', ','.repeat(60_000), 'line 2: the record is longer than 8 MiB\n'],
  ])('reads no more than 8 MiB of a record: %s', async (_, begin, part, message) => {
    let parts = 0
    const input = Readable.from(
      (function* () {
        yield Buffer.from(begin)
        for (; parts < 10_000; parts++) yield Buffer.from(part)
      })(),
    )
    const { code, err } = await command(['encrypt-csv', ...CHOICE], input)
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(message) })
    expect(parts).toBeLessThan(200)
  })

  it('handles long rows a few at a time', async () => {
    const row = (id: number) => `${id},${'x'.repeat(3_000_000)}`
    const csv = ['id,name', row(1), row(2), row(3), ''].join('\n')
    writeFileSync(join(folder, 'a.csv'), csv)
    await done(['encrypt-csv', 'a.csv', ...CHOICE, '--json'], '')
    await done(['decrypt-csv', 'a.csv.eaas', ...CHOICE, '-o', 'b.csv', '--json'], '')
    expect(readFileSync(join(folder, 'b.csv'), 'utf8') === csv).toBe(true)
  })
})

describe('decrypt-csv', () => {
  it('decrypts under a disabled key, and says what to do about one that waits for its destruction', async () => {
    const csv = 'id,name\n1,Ada\n'
    const sealed = await done(['encrypt-csv', ...CHOICE], csv)
    const eaas = createClient(files.service)
    await eaas.keys.disable(files.keyId)
    expect(await done(['decrypt-csv', ...CHOICE], sealed)).toBe(csv)
    expect(await command(['encrypt-csv', ...CHOICE], csv)).toMatchObject({
      code: 1,
      err: expect.stringContaining('the key "files" is disabled: enable it first'),
    })
    await eaas.keys.destroy(files.keyId, 'files')
    eaas.close()
    for (const name of ['encrypt-csv', 'decrypt-csv'])
      expect(await command([name, ...CHOICE], name === 'encrypt-csv' ? csv : sealed)).toMatchObject({
        code: 1,
        err: expect.stringContaining('is pending_destruction: cancel its destruction first'),
      })
  })
})
