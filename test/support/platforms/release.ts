// A release of all packages as its workflow makes it, and a registry that has it.
import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import type { LocalRegistry } from '../../packed/local-registry.js'
import { freePort } from '../database/postgres.js'
import { guardedDir } from '../run/guarded-dir.js'
import { madeOnce } from '../run/made-once.js'
import { ROOT } from '../sources/source-files.js'
import { PUBLISHED } from './packed-sdk.js'

const run = promisify(execFile)
const START_MS = 60_000
const MAX_OUTPUT = 16 * 1_048_576
/** The newest version that runs on every supported Node, with the one package that its own range does not reach. */
const VERDACCIO = { dependencies: { verdaccio: '6.8.0' }, overrides: { 'node-fetch': '2.7.0' } }

/** The environment without anything of the test run: a build would follow NODE_ENV. */
export function environmentOfUser(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_registry$)|EAAS_|NODE_(ENV|OPTIONS)$|TEST$|VITEST)/i.test(name),
  )
  return { ...Object.fromEntries(own), npm_config_audit: 'false', npm_config_update_notifier: 'false' }
}

/**
 * Clones the commit of this checkout to a folder, raises the versions, builds, and packs.
 *
 * @param root the folder, which must not exist
 * @returns the folder of the tarballs
 */
export async function makeRelease(root: string): Promise<string> {
  const tarballs = join(root, 'tarballs')
  const step = (command: string, ...args: string[]) =>
    run(command, args, { cwd: root, env: environmentOfUser(), maxBuffer: MAX_OUTPUT })
  await run('git', ['clone', '--quiet', '--no-local', ROOT, root])
  await step('npm', 'ci', '--ignore-scripts', '--no-fund')
  await step('npm', 'run', 'release:version')
  await step('npx', '--no-install', 'biome', 'check', '.') // the release's pull request is tested
  await step('npm', 'pkg', 'set', 'repository.url=https://github.com/owner/name')
  await step(process.execPath, '.changeset/fill-repository.mjs')
  await step('npm', 'run', 'build')
  mkdirSync(tarballs)
  const packages = PUBLISHED.flatMap((name) => ['-w', name])
  await step('npm', 'pack', '--ignore-scripts', '--pack-destination', tarballs, ...packages)
  return tarballs
}

/** Makes the release of this run; returns the folder of its tarballs. */
export async function releaseOfRun(): Promise<string> {
  const made = await madeOnce(inject('runDir'), 'release', (draft) => makeRelease(join(draft, 'eaas')))
  return join(made, 'eaas/tarballs')
}

/**
 * Starts a registry on loopback that forwards to npm's own registry what is not ours, and publishes the release
 * there.
 */
export async function startReleaseRegistry(): Promise<LocalRegistry> {
  const tarballs = await releaseOfRun()
  const program = await madeOnce(inject('runDir'), 'verdaccio', (draft) => {
    writeFileSync(join(draft, 'package.json'), JSON.stringify({ private: true, ...VERDACCIO }))
    return run('npm', ['install', '--ignore-scripts', '--no-fund'], { cwd: draft, env: environmentOfUser() })
  })
  const dir = guardedDir('eaas-test-registry')
  const { stdout: ordinary } = await run('npm', ['config', 'get', 'registry'], { env: environmentOfUser() })
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const config = {
    storage: join(dir.path, 'storage'),
    auth: { htpasswd: { file: join(dir.path, 'htpasswd') } },
    uplinks: { ordinary: { url: ordinary.trim(), timeout: '60s', maxage: '1h' } },
    packages: {
      '@eaas/*': { access: '$all', publish: '$all' },
      '**': { access: '$all', proxy: 'ordinary' },
    },
    web: { enable: false },
    max_body_size: '100mb',
    log: { type: 'stdout', format: 'json', level: 'error' },
  }
  writeFileSync(join(dir.path, 'config.yaml'), JSON.stringify(config)) // which is YAML
  writeFileSync(join(dir.path, 'npmrc'), `registry=${url}\n//127.0.0.1:${port}/:_authToken=anybody\n`)
  const args = [join(program, 'node_modules/verdaccio/bin/verdaccio'), '--config', join(dir.path, 'config.yaml')]
  const child = spawn(process.execPath, [...args, '--listen', `127.0.0.1:${port}`], { stdio: 'inherit' })
  dir.watch([child.pid ?? 0])
  await isUp(`${url}/-/ping`)
  for (const name of readdirSync(tarballs)) {
    // Only a workflow can say where a build came from.
    const publish = ['publish', join(tarballs, name), '--provenance=false', '--userconfig', join(dir.path, 'npmrc')]
    await run('npm', [...publish, '--registry', url], { env: environmentOfUser() })
  }
  return { url, close: () => void dir.remove() }
}

async function isUp(url: string): Promise<void> {
  for (const end = Date.now() + START_MS; Date.now() < end; await sleep(100)) {
    const answer = await fetch(url).catch(() => undefined)
    if (answer?.ok) return
  }
  throw new Error(`${url} does not answer`)
}
