// The way of one unwrap that the README of the server's source describes, compared with the files in which functions run.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startService } from '../support/service/service.js'
import { filesRun } from '../support/sources/files-run.js'
import { ROOT } from '../support/sources/source-files.js'

const MOST_DECIDING = 17
const SOURCE = 'packages/server/src'

const section = /## The way of one unwrap\n([\s\S]*)$/.exec(readFileSync(join(ROOT, SOURCE, 'README.md'), 'utf8'))?.[1]
const namedIn = (text = '') => [...text.matchAll(/`((?:[\w-]+\/)*[\w-]+\.ts)`/g)].map(([, path = '']) => path)
const deciding = [...(section ?? '').matchAll(/^\d+\. (.*(?:\n {3,}.*)*)/gm)].flatMap(([, text]) => namedIn(text))
/** Those of the protocol. */
const OTHERS = ['call-rules.ts', 'body-cost.ts', 'wire/requests.ts']

it(`takes one unwrap through the files that the README names, at most ${MOST_DECIDING} of which decide`, async () => {
  const service = await startService()
  const owner = await service.createTenant({})
  const { key_id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
  const dek = Buffer.alloc(32, 7).toString('base64')
  const { wrapped_key } = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body
  const unwrap = async () => {
    const { status, body } = await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
    expect([status, body.dek]).toEqual([200, dek])
  }
  await unwrap() // loads what is loaded once
  // On a busy machine, what one of them needs was read so long ago that it is read again, and other work runs beside it.
  const runs: string[][] = []
  for (let run = 0; run < 6; run++) runs.push(await filesRun(SOURCE, unwrap))
  const ran = (runs[0] ?? []).filter((path) => runs.every((files) => files.includes(path)))
  await service.close()
  expect(deciding.length).toBeLessThanOrEqual(MOST_DECIDING)
  expect(deciding.filter((path) => !ran.includes(path) && !OTHERS.includes(path))).toEqual([])
  expect(ran.filter((path) => !namedIn(section).includes(path))).toEqual([])
})
