import { it } from 'vitest'

it('hangs', () => new Promise(() => console.log('it hangs')), 600_000)
