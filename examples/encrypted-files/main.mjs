// `npm run example:encrypted-files`: a file goes encrypted into an object store and comes back; a part of it is read; then it is tampered with.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '@eaas/sdk'
import { count } from '../lib/output.mjs'
import { runExample } from '../lib/run-example.mjs'
import { UsageError } from '../lib/usage-error.mjs'
import { download, readPart, upload } from './files.mjs'
import { presign } from './presign.mjs'
import { startStore } from './store.mjs'

const MIB = 1_048_576
const HELP = `npm run example:encrypted-files

Encrypts a file as a stream into an object store that speaks S3's protocol, by a presigned URL; downloads and decrypts it, reads a part of
it by requests with Range, and shows that a stored file that was cut does not pass for the file. The store is a folder and a server of
this example, and gone when it ends.

  --mib 64         the size of the file in MiB
  --help           show this

Exit code: 0 all is as it should be; 1 it is not; 2 the command line cannot be used.
`

await runExample({
  help: HELP,
  readArguments,
  async run({ mib }, { output, openServer, signal }) {
    const { step, tell } = output
    const problems = []
    output.title('EaaS: encrypted files in an object store')
    const folder = await mkdtemp(join(tmpdir(), 'eaas-files-'))
    const credentials = { accessKey: 'example', secretKey: randomUUID(), region: 'eu-west-1' }
    const store = await startStore({ folder, credentials })
    const server = openServer()
    const baseUrl = await step('Start EaaS, and a store beside it', () => server.listening)
    const eaas = createClient({ baseUrl, apiKey: await server.createTenant() })
    try {
      const { id: keyId } = await eaas.keys.create({ name: 'files' }, { signal })
      const [path, copy] = [join(folder, 'report.bin'), join(folder, 'copy.bin')]
      await writeFile(path, '')
      const file = await open(path, 'w')
      for (let written = 0; written < mib; written++) await file.write(randomBytes(MIB))
      await file.close()
      const name = '/reports/2026-11.bin'
      const urlTo = (/** @type {'PUT' | 'GET'} */ method) =>
        presign(credentials, { method, url: store.url + name, seconds: 600 })

      await step(`Encrypt ${count(mib)} MiB into the store`, () =>
        upload(eaas, { path, url: urlTo('PUT'), name, keyId, signal }),
      )
      await step('Download and decrypt them', () => download(eaas, { path: copy, url: urlTo('GET'), name, signal }))
      if ((await sha256(path)) !== (await sha256(copy))) problems.push('the file came back as another one')
      const stored = await readFile(store.pathOf(name))
      if (stored.includes((await readFile(path)).subarray(0, 32))) problems.push('the store has plaintext')

      const before = store.sent()
      const from = Math.floor(mib * MIB * 0.7)
      const part = await step('Read 1,000 bytes of its middle', () =>
        readPart(eaas, { url: urlTo('GET'), name, from, to: from + 1_000 }),
      )
      tell(`The store sent ${count(store.sent() - before)} bytes for that.`)
      if (!(await readFile(path)).subarray(from, from + 1_000).equals(part)) problems.push('the part is another one')

      await truncate(store.pathOf(name), stored.length - 65_552)
      const refused = await download(eaas, { path: `${copy}.2`, url: urlTo('GET'), name, signal }).then(
        () => undefined,
        (/** @type {{ code?: string }} */ error) => error.code,
      )
      tell(
        `Somebody cut the stored file at the end of a segment: the download ends with ${refused}, and leaves no file.`,
      )
      if (refused !== 'E_DECRYPTION') problems.push('a stored file that was cut was taken for the file')
      return problems
    } finally {
      eaas.close()
      await store.close()
      await rm(folder, { recursive: true, force: true })
    }
  },
  success: 'The file came back as it was.',
})

/** @param {string[]} args */
function readArguments(args) {
  try {
    const options = /** @type {const} */ ({ mib: { type: 'string' }, help: { type: 'boolean', short: 'h' } })
    const { help = false, mib = '64' } = parseArgs({ args, options }).values
    if (!/^[1-9]\d{0,3}$/.test(mib)) throw new Error('--mib must be a whole number from 1 to 9999')
    return { help, mib: Number(mib) }
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : error}\nSee: --help`)
  }
}

/** @param {string} path */
async function sha256(path) {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}
