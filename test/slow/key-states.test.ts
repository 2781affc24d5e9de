// Ten thousand random sequences of events to keys, held against the contract's table.
import { afterAll, beforeAll, describe, it } from 'vitest'
import { type KeyModel, startKeyModel } from '../api/key-model.js'

let model: KeyModel

beforeAll(async () => {
  model = await startKeyModel()
})
afterAll(() => model?.service.close())

describe('a key', () => {
  it('agrees with the model after each of 10,000 random sequences of events', async () => {
    await model.agreeAfterRandomEvents({ sequences: 10_000, eventsASequence: 12 })
  })
})
