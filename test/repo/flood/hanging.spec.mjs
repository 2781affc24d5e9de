// A test that hangs, and leaves a folder.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'vitest'

it(
  'hangs',
  () => new Promise(() => console.log(`it hangs in ${mkdtempSync(join(tmpdir(), 'eaas-hanging-'))} .`)),
  600_000,
)
