// The image, built by buildah and run by podman on bases that mmdebstrap makes of Debian's packages: no registry of images is needed.
// podman needs namespaces and cgroups of its own; where it cannot run, the test says so and fails.
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LocalRegistry, startLocalRegistry } from '../../packed/local-registry.js'
import { findOrInstallPostgres } from '../../support/database/find-postgres.js'
import { freePort, startPostgres } from '../../support/database/postgres.js'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { ROOT_KEY } from '../../support/service/eaas-process.js'
import { ROOT } from '../../support/sources/source-files.js'

const run = promisify(execFile)
const CONTAINERFILE = join(ROOT, 'packages/server/container/Containerfile')
const IMAGE = 'localhost/eaas-test:latest'
const NONROOT = 65_532
const SETUP_MS = 15 * 60_000

const found = findOrInstallPrograms(
  ['buildah', 'podman', 'mmdebstrap', 'runc'],
  ['buildah', 'podman', 'mmdebstrap', 'runc'],
)

const folder = mkdtempSync(join(tmpdir(), 'eaas-image-'))
const storage = ['--root', join(folder, 'root'), '--runroot', join(folder, 'run'), '--storage-driver', 'vfs']
/** crun refuses machines with both versions of cgroups; both refuse to raise limits without CAP_SYS_RESOURCE. */
const LIMITS = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024']

const podman = async (...args: string[]) => (await run('podman', [...storage, '--runtime', 'runc', ...args])).stdout
const podmanFails = (...args: string[]) =>
  podman(...args).then(
    () => undefined,
    ({ code }: { code: number }) => code,
  )

/** Makes a base of packages, adds files to it, and imports it. */
async function importBase(name: string, packages: string, add: (folder: string) => void): Promise<void> {
  const base = join(folder, name)
  await run('mmdebstrap', ['--mode=root', '--variant=extract', `--include=${packages}`, 'bookworm', `${base}.tar`])
  mkdirSync(base)
  execFileSync('tar', ['-xf', `${base}.tar`, '-C', base, '--exclude=./dev/*'])
  mkdirSync(join(base, 'tmp'), { recursive: true })
  add(base)
  execFileSync('tar', ['-cf', `${base}.tar`, '-C', base, '.'])
  await podman('import', `${base}.tar`, `localhost/${name}`)
}

describe.runIf(found)('the image', () => {
  let registry: LocalRegistry | undefined
  let secrets: string
  let names = 0

  beforeAll(async () => {
    const npm = dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())))
    await importBase('eaas-test-build', 'dash,coreutils,libc6,libstdc++6,libgcc-s1', (base) => {
      const local = join(base, 'usr/local')
      mkdirSync(join(local, 'bin'), { recursive: true })
      cpSync(process.execPath, join(local, 'bin/node'))
      cpSync(npm, join(local, 'lib/npm'), { recursive: true })
      symlinkSync('../lib/npm/bin/npm-cli.js', join(local, 'bin/npm'))
    })
    await importBase('eaas-test-runtime', 'libc6,libstdc++6,libgcc-s1', () => undefined)
    registry = await startLocalRegistry()
    const context = join(folder, 'context')
    mkdirSync(context)
    const manifest = { name: 'eaas-image', version: '1.0.0', private: true, dependencies: { '@eaas/server': '*' } }
    writeFileSync(join(context, 'package.json'), JSON.stringify(manifest))
    await run('npm', ['install', '--package-lock-only', '--registry', registry.url], { cwd: context })
    const bases = ['BUILD_IMAGE=localhost/eaas-test-build', 'RUNTIME_IMAGE=localhost/eaas-test-runtime']
    const values = [...bases, `NPM_CONFIG_REGISTRY=${registry.url}`, 'VERSION=1.2.3', 'REVISION=abc']
    const args = [
      '--format',
      'docker',
      '--network',
      'host',
      '--isolation',
      'chroot',
      '--file',
      CONTAINERFILE,
      '--tag',
      IMAGE,
    ]
    const set = values.flatMap((value) => ['--build-arg', value])
    await run('buildah', [...storage, 'build', ...args, ...set, context], { maxBuffer: 64 * 1_048_576 })
    secrets = join(folder, 'secrets')
    mkdirSync(secrets)
    writeFileSync(join(secrets, 'root-key'), ROOT_KEY)
    execFileSync('chown', ['-R', `${NONROOT}:${NONROOT}`, secrets])
  }, SETUP_MS)
  afterAll(async () => {
    registry?.close()
    if (found) await podman('rm', '--all', '--force', '--time', '0').catch(() => undefined)
    rmSync(folder, { recursive: true, force: true })
  }, SETUP_MS)

  /** Starts a container in the background; returns its name and port. */
  async function start(options: string[] = [], environment: Record<string, string> = {}, args: string[] = []) {
    const port = await freePort()
    const name = `eaas-test-${process.pid}-${++names}`
    const settings = {
      EAAS_PORT: String(port),
      EAAS_DRAIN_SECONDS: '0',
      EAAS_ROOT_KEY_FILE: '/run/eaas/root-key',
      ...environment,
    }
    const set = Object.entries(settings).flatMap(([key, value]) => ['--env', `${key}=${value}`])
    const hardened = [
      '--read-only',
      '--read-only-tmpfs=false',
      '--cap-drop',
      'all',
      '--security-opt',
      'no-new-privileges',
    ]
    const mounts = ['--volume', `${secrets}:/run/eaas:ro`]
    await podman(
      'run',
      '--detach',
      '--name',
      name,
      '--network',
      'host',
      ...LIMITS,
      ...hardened,
      ...mounts,
      ...options,
      ...set,
      IMAGE,
      ...args,
    )
    const url = `http://127.0.0.1:${port}`
    const isReady = () =>
      fetch(`${url}/readyz`).then(
        ({ status }) => status === 200,
        () => false,
      )
    return { name, url, isReady }
  }

  /** Stops it as Docker and Kubernetes do; the exit code. */
  async function stop(name: string): Promise<number> {
    await podman('kill', '--signal', 'TERM', name)
    return Number((await podman('wait', name)).trim())
  }

  it('runs node as a user without rights, and has no shell, labels that say what it is, and a list of its parts', async () => {
    const [{ Config }] = JSON.parse(await podman('image', 'inspect', IMAGE)) as [{ Config: Record<string, unknown> }]
    expect(Config.User).toBe(`${NONROOT}:${NONROOT}`)
    expect(Config.Labels).toMatchObject({
      'org.opencontainers.image.version': '1.2.3',
      'org.opencontainers.image.revision': 'abc',
      'org.opencontainers.image.licenses': 'MIT',
    })
    expect(Object.keys(Config.Volumes as object).sort()).toEqual(['/var/lib/eaas/checkpoints', '/var/lib/eaas/data'])
    const asked = (path: string) =>
      podmanFails('run', '--rm', '--network', 'none', ...LIMITS, '--entrypoint', path, IMAGE)
    for (const shell of ['/bin/sh', '/bin/bash', '/bin/dash', '/usr/bin/env'])
      expect([shell, await asked(shell)]).toEqual([shell, 127])
    const print = `const { components } = JSON.parse(require('fs').readFileSync('/opt/eaas/sbom.cdx.json'))
      console.log(JSON.stringify([process.getuid(), process.pid, components.map(({ name, group }) => (group ? group + '/' : '') + name)]))`
    const shown = await podman(
      'run',
      '--rm',
      '--network',
      'none',
      ...LIMITS,
      '--entrypoint',
      '/usr/local/bin/node',
      IMAGE,
      '-e',
      print,
    )
    const [uid, pid, parts] = JSON.parse(shown)
    expect([uid, pid]).toEqual([NONROOT, 1])
    expect(parts).toEqual(expect.arrayContaining(['@eaas/server', '@eaas/audit', 'fastify']))
  })

  it('serves from the embedded database on a read-only root, and keeps it in its volume', async () => {
    const volumes = ['--volume', 'data:/var/lib/eaas/data', '--volume', 'checkpoints:/var/lib/eaas/checkpoints']
    const first = await start(volumes)
    await expect.poll(first.isReady).toBe(true)
    await podman('healthcheck', 'run', first.name)
    const eaas = '/opt/eaas/node_modules/@eaas/server/bin/eaas.mjs'
    const shown = await podman('exec', first.name, '/usr/local/bin/node', eaas, 'tenant', 'create', '--name', 'acme')
    const made = /eaas_sk_\S+/.exec(shown)?.[0]
    expect(await stop(first.name)).toBe(0)
    const log = await podman('logs', first.name)
    expect(log).toContain('There is no tenant yet')
    expect(log).not.toContain('eaas_sk_')
    const second = await start(volumes)
    await expect.poll(second.isReady).toBe(true)
    const answer = await fetch(`${second.url}/v1/keys`, { headers: { authorization: `Bearer ${made}` } })
    expect([made === undefined, answer.status]).toEqual([false, 200])
    expect(await stop(second.name)).toBe(0)
    const checkpoints = (await podman('volume', 'inspect', 'checkpoints', '--format', '{{.Mountpoint}}')).trim()
    expect(readFileSync(join(checkpoints, 'checkpoints'), 'utf8')).toContain('eaas/audit/checkpoint')
  })

  it('serves from PostgreSQL, and migrates by another command', async () => {
    const bin = findOrInstallPostgres()
    if (!bin) throw new Error('there is no PostgreSQL')
    const postgres = await startPostgres({ bin })
    try {
      const url = await postgres.createDatabase('eaas_image')
      writeFileSync(join(secrets, 'database-url'), url, { mode: 0o644 })
      const environment = { EAAS_DATABASE_URL_FILE: '/run/eaas/database-url' }
      const migration = await start([], environment, ['migrate'])
      expect(Number((await podman('wait', migration.name)).trim())).toBe(0)
      const server = await start([], environment)
      await expect.poll(server.isReady).toBe(true)
      await podman('healthcheck', 'run', server.name)
      await postgres.stop()
      await expect.poll(server.isReady).toBe(false)
      await podman('healthcheck', 'run', server.name) // no restart would bring the database back
      expect(await stop(server.name)).toBe(0)
    } finally {
      await postgres.remove()
    }
  })

  it('ends by SIGTERM while it waits for its database', async () => {
    let connections = 0
    const silent = createServer(() => {
      connections++
    })
    const port = await freePort()
    await new Promise<void>((resolve) => silent.listen(port, '127.0.0.1', resolve))
    try {
      writeFileSync(join(secrets, 'database-url'), `postgres://eaas@127.0.0.1:${port}/eaas?sslmode=disable`, {
        mode: 0o644,
      })
      const server = await start([], { EAAS_DATABASE_URL_FILE: '/run/eaas/database-url' })
      await expect.poll(() => connections).toBeGreaterThan(0)
      expect(await podmanFails('healthcheck', 'run', server.name)).toBe(1)
      expect(await stop(server.name)).toBe(143)
    } finally {
      silent.close()
    }
  })
})
