// Values that are bound to a context belong to encrypt() and decrypt(): a model, whose format is v1, refuses them.
import { expect, it } from 'vitest'
import { text } from '../index.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'

const service = useService()
const connect = clientsOf(service)

it('a value that is bound to a context is refused by a model, whatever it is asked to do', async () => {
  const keyId = service.createKey()
  const eaas = connect()
  const notes = eaas.model({ keyId, fields: { note: text() } })
  const row = { note: await eaas.encrypt('bound', { keyId, context: { row: '7' } }) }
  expect(await failure(notes.decrypt(row))).toMatchObject({
    code: 'E_DECRYPTION',
    place: { index: 0, field: 'note' },
  })
  for (const run of [notes.rewrap([row]), notes.reseal([row])]) {
    for await (const { items } of run) {
      expect(items).toMatchObject([{ status: 'failed', error: { code: 'E_DECRYPTION' } }])
    }
  }
})
