// A worker that goes on reporting unhandled errors and never ends.
import { it } from 'vitest'

it('never ends', async () => {
  setInterval(() => {
    for (let count = 0; count < 100; count++) Promise.reject(new Error('flood'))
  })
  await new Promise(() => undefined)
})
