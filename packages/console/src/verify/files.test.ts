// The period that the verifier proposes, that of the entries, whatever else in an export has a time; and the key that it verifies by.
import { expect, it } from 'vitest'
import { reportedLog, SIGNED_AT } from '../../../../test/support/audit/reported-log.js'
import { cutExport, publicKey, writeExport } from '../../../../test/support/audit/written-export.js'
import { findOtherKey, findPeriod, recognize } from './files.js'

const LATER = '2026-07-02T00:00:00.011Z'
const [header = '', ...lines] = writeExport(reportedLog(), SIGNED_AT)
const fileOf = (text: string) => new File([text], 'export.ndjson')
const { created_at } = JSON.parse(lines[0] ?? '')
const periodOf = async (...texts: string[]) =>
  findPeriod(await Promise.all(texts.map((text) => recognize(fileOf(text)))))

it.each([
  ['begins with its entries', ''],
  [
    'begins with an anchor',
    `{"anchor":${lines[9]?.trimEnd()},"last_id":1}\n{"tree":"a\\n${SIGNED_AT}\\n","entries":[]}\n`,
  ],
])('is that of an export that %s', async (_which, before) => {
  expect(await periodOf([header, before, ...lines].join(''))).toEqual([created_at, SIGNED_AT])
})

it('ends with the checkpoint, though the tree is signed later', async () => {
  const trailer = lines.at(-1) ?? ''
  const at = trailer.lastIndexOf(SIGNED_AT)
  const end = trailer.slice(0, at) + LATER + trailer.slice(at + LATER.length)
  expect(await periodOf([header, ...lines.slice(0, -1), end].join(''))).toEqual([created_at, SIGNED_AT])
})

it('is from the first of several exports to the last', async () => {
  const [first = '', second = '', third = ''] = cutExport([header, ...lines], [300, 400], SIGNED_AT)
  const later = third.replace(`\\n${SIGNED_AT}\\n`, `\\n${LATER}\\n`)
  expect(await periodOf(first, second, later)).toEqual([created_at, LATER])
})

it('is not known of a file that has no entry and no end', async () => {
  expect(await periodOf(header)).toEqual(['', ''])
  expect(await periodOf()).toEqual(['', ''])
})

it('is the key in the field alone: another one in a file is told, by the name of the file', async () => {
  const own = await recognize(new File([`${publicKey}\n`], 'operator.key'))
  const other = await recognize(new File(['eaas-audit+01234567+AAAA\n'], 'brought.key'))
  const known = await recognize(fileOf(header))
  expect(findOtherKey([known, own], ` ${publicKey}\n`)).toBeUndefined()
  expect(findOtherKey([known, own, other], publicKey)).toContain('The public key in brought.key is not the one')
  expect(findOtherKey([known, own], '')).toContain('operator.key')
})
