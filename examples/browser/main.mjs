// `npm run example:browser`: builds the page, starts EaaS and the application's backend, and leaves nothing behind.
import { once } from 'node:events'
import { join } from 'node:path'
import { createClient } from '@eaas/sdk'
import { build } from 'vite'
import { abortOnInterruption, exitCodeOf } from '../lib/interruption.mjs'
import { startServer } from '../lib/server.mjs'
import { createBackend } from './backend.mjs'
import { createLive } from './live.mjs'
import { setUp } from './setup.mjs'
import config from './vite.config.mjs'

/** @import { Server } from 'node:http' */
/** @import { AddressInfo } from 'node:net' */

const PORT = Number(process.env.EXAMPLE_PORT ?? 8421)
const signal = abortOnInterruption()

const eaas = startServer(signal)
try {
  await main()
} catch (error) {
  if (!signal.aborted) throw error
} finally {
  await eaas.stop()
}
process.stdout.write('Stopped. Nothing is left behind.\n')
process.exitCode = exitCodeOf(signal)

async function main() {
  process.stdout.write('Starting EaaS on a new, empty database, and building the page…\n')
  const pageFolder = join(eaas.folder, 'page')
  const [eaasUrl] = await Promise.all([
    eaas.listening,
    build({
      ...config,
      configFile: false,
      logLevel: 'warn',
      build: { ...config.build, outDir: pageFolder, emptyOutDir: true },
    }),
  ])
  signal.throwIfAborted()
  const { keys, customers, brokerKey, auditorKey } = await setUp(eaasUrl, await eaas.createTenant())
  const auditor = createClient({ baseUrl: eaasUrl, apiKey: auditorKey })
  const live = createLive(auditor)
  const backend = createBackend({ eaasUrl, apiKey: brokerKey, keys, customers, pageFolder, live })
  try {
    await listen(backend)
    const { port } = /** @type {AddressInfo} */ (backend.address())
    process.stdout.write(`\nOpen http://localhost:${port}\nCtrl-C ends it.\n`)
    await once(signal, 'abort')
  } finally {
    live.close()
    auditor.close()
    backend.closeAllConnections()
    backend.close()
  }
}

/**
 * Listens on the usual port, or on any other if that is taken.
 *
 * @param {Server} backend
 */
async function listen(backend) {
  try {
    await once(backend.listen(PORT, '127.0.0.1'), 'listening', { signal })
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EADDRINUSE') throw error
    await once(backend.listen(0, '127.0.0.1'), 'listening', { signal })
  }
}
