/** What is to be installed, and whether the adapter takes the ORM that is there. */
import { peerDependencies as drizzle } from '../../../drizzle/package.json'
import { peerDependencies as kysely } from '../../../kysely/package.json'
import { peerDependencies as prisma } from '../../../prisma/package.json'
import { peerDependencies as typeorm } from '../../../typeorm/package.json'
import manifest from '../../package.json'
import type { Application, FoundTable } from './application.js'

const PEERS: Readonly<Record<FoundTable['orm'], Readonly<Record<string, string>>>> = {
  ...{ drizzle, kysely, prisma, typeorm },
}

/** Warns of a version of the ORM that the adapter does not take; undefined if it does, or none is named. */
export function versionWarning({ packages }: Application, orm: FoundTable['orm']): string | undefined {
  const [name, wanted = ''] = Object.entries(PEERS[orm]).find(([peer]) => peer !== '@eaas/sdk') ?? []
  const found = packages.get(name ?? '')
  const [least = 0, below = 0] = (wanted.match(/\d+(\.\d+)?/g) ?? []).map(toNumber)
  const [first] = found?.match(/\d+(\.\d+)?/) ?? []
  if (first === undefined || (toNumber(first) >= least && toNumber(first) < below)) return undefined
  return `@eaas/${orm} takes ${name} ${wanted}, and this is ${found}: update it first`
}

function toNumber(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major * 10_000 + minor
}

/**
 * The commands that install what the application lacks. `npm run release` writes the repository into the manifest: a build
 * without it is of a clone, where all that the next commands use is packed.
 */
export function installSteps({ packages }: Application, orm: FoundTable['orm'], folder: string): string[] {
  const isPublished = 'repository' in manifest
  const used = ['sdk', orm, ...(isPublished ? [] : ['cli', 'server', 'audit', 'console'])]
  const missing = used.filter((name) => !packages.has(`@eaas/${name}`))
  if (missing.length === 0) return []
  if (isPublished) return [`npm install ${missing.map((name) => `@eaas/${name}`).join(' ')}`]
  return [
    `EaaS is not on npm yet: in a clone of it, npm run pack -- ${folder}`,
    `npm install ${missing.map((name) => `./eaas-packages/eaas-${name}-${manifest.version}.tgz`).join(' ')}`,
  ]
}
