// A registry on loopback for one test: our packages as npm would publish them, and everything else from this checkout's
// node_modules. So `npm install` is run as a user runs it, and needs no network.
import { spawn } from 'node:child_process'
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { pack } from '../support/platforms/packed-sdk.js'
import { ROOT } from '../support/sources/source-files.js'

const OURS = ['@eaas/audit', '@eaas/console', '@eaas/sdk', '@eaas/server'] as const
/** What no program of JavaScript loads of the other packages: three fifths of their files, each of which npm unpacks. */
const UNUSED = ['*.map', '*.ts', '*.mts', '*.cts', 'test']

interface Published {
  manifest: { name: string; version: string }
  /** Sends the tarball. */
  send(response: ServerResponse): void
}

export interface LocalRegistry {
  url: string
  close(): void
}

/** Starts the registry. Our packages are packed as they were built. */
export async function startLocalRegistry(): Promise<LocalRegistry> {
  const published = [...installedPackages(), ...(await Promise.all(OURS.map(packed)))]
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? '').slice(1))
    const [, number] = /^-\/(\d+)\.tgz$/.exec(path) ?? []
    const wanted = number === undefined ? undefined : published[Number(number)]
    response.setHeader('cache-control', 'max-age=3600') // for the second installation of a test
    if (wanted) return wanted.send(response)
    const versions = published.flatMap(({ manifest }, at) =>
      manifest.name === path ? [{ ...manifest, dist: { tarball: `${url}/-/${at}.tgz` } }] : [],
    )
    const latest = versions.at(-1)?.version
    response.writeHead(latest === undefined ? 404 : 200, { 'content-type': 'application/json' })
    const document = Object.fromEntries(versions.map((one) => [one.version, one]))
    response.end(JSON.stringify({ name: path, 'dist-tags': { latest }, versions: document }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function installedPackages(): Published[] {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as { packages: object }
  const folders = Object.keys(packages).filter((path) => path.includes('node_modules/') && !/\/@eaas\/\w+$/.test(path))
  return folders.flatMap((path) => {
    const folder = join(ROOT, path)
    if (!existsSync(join(folder, 'package.json'))) return [] // of another platform
    const name = basename(folder)
    const left = [`${name}/node_modules`, ...UNUSED].map((pattern) => `--exclude=${pattern}`)
    const args = ['-C', dirname(folder), ...left, '-cf', '-', name]
    return [{ manifest: readManifest(folder), send: (response) => void spawn('tar', args).stdout.pipe(response) }]
  })
}

async function packed(name: (typeof OURS)[number]): Promise<Published> {
  const { tarball } = await pack(name)
  const send = (response: ServerResponse) => void createReadStream(tarball).pipe(response)
  return { manifest: readManifest(join(ROOT, 'node_modules', name)), send } // a link to the package
}

function readManifest(folder: string): Published['manifest'] {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Published['manifest']
}
