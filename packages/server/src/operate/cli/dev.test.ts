// What `eaas dev` leaves of a file that another program reads.
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { setEnvFile } from './dev.js'

it('leaves the bytes of other lines as they are, in whatever encoding', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-env-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, '.env')
  const others = Buffer.concat([Buffer.from('LATIN=caf\xe9\n', 'latin1'), Buffer.from('UTF=café ✓\n')])
  await writeFile(path, Buffer.concat([Buffer.from('EAAS_URL=before\n'), others]))
  await setEnvFile(path, { EAAS_URL: 'http://x' })
  expect(await readFile(path)).toEqual(Buffer.concat([others, Buffer.from('EAAS_URL=http://x\n')]))
  expect(await readdir(folder)).toEqual(['.env'])
})
