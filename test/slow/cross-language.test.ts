// Messages of 16 MiB between our engines and another language; smaller ones are in test/sdk.
import { describe, it } from 'vitest'
import { ENGINES, expectExchange } from '../sdk/cross-language.js'
import { findObstacle } from '../support/vectors/other-language.js'

const obstacle = findObstacle()
if (obstacle) console.warn(`No messages of 16 MiB crossed languages: ${obstacle}.`)

describe.skipIf(obstacle).each(ENGINES)('another language, with %s', (_, engine) => {
  it('opens what is sealed here and seals what opens here: 2^24 bytes', async () => {
    await expectExchange({ bytes: 2 ** 24, messages: 5, engine })
  })
})
