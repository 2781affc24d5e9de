// Exports, see export.md: the files of another program, what our lines look like, and what no verifier may
// take.
import { gzipSync } from 'node:zlib'
import { decodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { optionsOf, refusedExport } from '../../../../test/support/audit/refused-export.js'
import { rounds } from '../../../../test/support/run/rounds.js'
import { ANY_CHARACTER } from '../../../../test/support/vectors/any-text.js'
import { isAnchor, isLinks, readAnchorLine, readLinksLine } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import { type ExportVerdict, type VerifyExportOptions, verifyExport } from '../verify/verify-export.js'
import type { ChainedEntry } from './chain.js'
import { anchorLine, entryLine, headerLine, linksLine, trailerLine } from './export.js'
import vectors from './export.vectors.json' with { type: 'json' }

const publicKey = vectors.public_key
const [whole] = vectors.valid
const file = Buffer.from(whole?.file ?? '')

function verify(file: Uint8Array, options: VerifyExportOptions = { publicKey }): Promise<ExportVerdict> {
  return verifyExport(splitLines([file]), options)
}

describe('the published exports', () => {
  it.each(vectors.valid)('verify: $name', async ({ file, verdict, ...given }) => {
    const found = await verify(Buffer.from(file), optionsOf(given))
    expect(found).toMatchObject({ valid: true, trusted_key: true, ...verdict })
    expect(found).not.toHaveProperty('reason')
  })

  it.each(vectors.valid)('consist of the lines that we write: $name', ({ file }) => {
    const [header, ...rest] = file.split('\n').slice(0, -1)
    const { after_hash, ...start } = JSON.parse(header ?? '')
    expect(headerLine({ key_changes: [], ...start, after_hash: decodeHex(after_hash) })).toBe(`${header}\n`)
    expect(trailerLine(JSON.parse(rest.pop() ?? ''))).toBe(`${file.split('\n').at(-2)}\n`)
    const anchor = rest.find(isAnchor)
    if (anchor !== undefined) expect(anchorLine(readAnchorLine(anchor))).toBe(`${anchor}\n`)
    const links = rest.find(isLinks)
    if (links !== undefined) expect(linksLine(readLinksLine(links))).toBe(`${links}\n`)
    for (const line of rest.filter((line) => line !== anchor && line !== links)) {
      const { hash, ...entry } = JSON.parse(line)
      expect(entryLine({ ...entry, tenant_id: start.tenant_id, hash: decodeHex(hash) })).toBe(`${line}\n`)
    }
  })

  it.each(vectors.refuse)('are not this file: $name', async (row) => {
    expect(await verify(refusedExport(row), optionsOf(row))).toMatchObject({
      valid: false,
      line: row.line,
      reason: expect.any(String),
    })
  })
})

describe('an export', () => {
  it('is refused with any bit of it altered', async () => {
    const taken: string[] = []
    for (let at = 0; at < file.length; at++) {
      const altered = Buffer.from(file)
      // One bit of each byte, another one in the next byte; all eight in the slow suite.
      for (let bit = rounds(at % 8, 0); bit < 8; bit += rounds(8, 1)) {
        altered[at] = (file[at] ?? 0) ^ (1 << bit)
        if ((await verify(altered)).valid !== false) taken.push(`bit ${bit} of byte ${at}`)
      }
    }
    expect(taken).toEqual([])
  })

  it('is refused when it is cut anywhere, a byte is left out or one is put in', async () => {
    const taken: string[] = []
    for (let at = 0; at < file.length; at++) {
      const [before, after] = [file.subarray(0, at), file.subarray(at)]
      for (const [change, other] of Object.entries({
        cut: before,
        'left out': Buffer.concat([before, after.subarray(1)]),
        'put in': Buffer.concat([before, Buffer.of(32), after]),
      })) {
        if ((await verify(other)).valid !== false) taken.push(`${change} at byte ${at}`)
      }
    }
    expect(taken).toEqual([])
  })

  it('verifies however its bytes arrive', async () => {
    const cuts = fc.array(fc.nat({ max: file.length }), { maxLength: 40 })
    await fc.assert(
      fc.asyncProperty(cuts, async (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), file.length]
        const chunks = ends.map((end, at) => file.subarray(ends[at - 1] ?? 0, end))
        expect((await verifyExport(splitLines(chunks), { publicKey })).valid).toBe(true)
      }),
    )
  })

  it("is consistent only, not trusted, without a public key of one's own", async () => {
    expect(await verify(file, {})).toMatchObject({ valid: true, trusted_key: false })
  })

  it("can't be held against a checkpoint without the public key that signed it", async () => {
    const checkpoint = vectors.valid.find((row) => row.checkpoint !== undefined)?.checkpoint ?? ''
    expect(await verify(file, { checkpoint })).toMatchObject({ valid: false, line: 1 })
  })

  it.each<[string, Uint8Array, RegExp]>([
    ['other line ends', Buffer.from(file.toString().replaceAll('\n', '\r\n')), /CRLF.*dos2unix/],
    ['a byte order mark', Buffer.concat([Buffer.from('\ufeff'), file]), /byte order mark.*dos2unix/],
    ['gzip around it', gzipSync(file), /compressed.*gunzip/],
  ])('to which something gave %s is refused, and the verdict says how to undo that', async (_, changed, reason) => {
    expect(await verify(changed)).toMatchObject({ valid: false, line: 1, reason: expect.stringMatching(reason) })
  })

  it('with a line that never ends is refused before it fills the memory', async () => {
    let given = 0
    function* endless() {
      for (;;) {
        given += 1
        yield Buffer.alloc(65_536, 'x')
      }
    }
    expect(await verifyExport(splitLines(endless()), { publicKey })).toMatchObject({ valid: false, line: 1 })
    expect(given * 65_536).toBeLessThan(32 * 1_048_576)
  })
})

describe('the line of an entry', () => {
  it('has the members of the format in their order, whatever order they came in', () => {
    const entry = { hash: new Uint8Array(32), created_at: 't', metadata: null, ip_address: null, actor: 'a' }
    const rest = { key_version: null, key_id: null, action: 'key.wrap', id: 1, tenant_id: 'x' } as const
    expect(Object.keys(JSON.parse(entryLine({ ...entry, ...rest } as Omit<ChainedEntry, 'mac'>)))).toEqual([
      'id',
      'action',
      'key_id',
      'key_version',
      'actor',
      'ip_address',
      'metadata',
      'created_at',
      'hash',
    ])
  })

  it('is one line, whatever its texts hold', () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER }), fc.string({ unit: ANY_CHARACTER }), (actor, metadata) => {
        const entry = {
          tenant_id: '',
          id: 1,
          action: 'key.wrap',
          key_id: null,
          key_version: null,
          actor,
          metadata,
        } as const
        const line = entryLine({ ...entry, ip_address: null, created_at: '', hash: new Uint8Array(32) })
        expect(line.indexOf('\n')).toBe(line.length - 1)
        expect(JSON.parse(line)).toMatchObject({ actor, metadata })
      }),
    )
  })
})
