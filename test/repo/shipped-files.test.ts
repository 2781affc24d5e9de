// What the package of the server holds for containers and clusters: it names only settings, files and services that there are.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { VARIABLES } from '../../packages/server/src/core/settings.js'
import { createCertificates } from '../support/service/certificates.js'
import { ROOT } from '../support/sources/source-files.js'

const SERVER = join(ROOT, 'packages/server')
const CONTAINER = join(SERVER, 'container')
const read = (path: string) => readFileSync(join(SERVER, path), 'utf8')
const settingsIn = (text: string) => [...text.matchAll(/\bEAAS_[A-Z_]*[A-Z]\b/g)].map(([name]) => name)
const known = Object.keys(VARIABLES)

describe('the package', () => {
  it('publishes all of it', () => {
    const { files } = JSON.parse(read('package.json')) as { files: string[] }
    expect(files).toEqual(expect.arrayContaining(['chart', 'config.schema.json', 'container', 'monitoring', 'systemd']))
  })
})

describe('the Containerfile', () => {
  const text = read('container/Containerfile')
  const last = text.slice(text.lastIndexOf('\nFROM '))

  it('sets settings that there are, and no secret', () => {
    const set = settingsIn(last.replaceAll(/^#.*$/gm, ''))
    expect(set.length).toBeGreaterThan(3)
    expect(set.filter((name) => !known.includes(name) || /KEY|URL/.test(name))).toEqual([])
  })

  it('takes both bases as arguments, ends as another user than root, and runs files that the package has', () => {
    expect(text.match(/^FROM .*$/gm)?.join()).toMatch(/^FROM \$\{BUILD_IMAGE\} AS build,FROM \$\{RUNTIME_IMAGE\}$/)
    expect(last).toMatch(/^USER 65532:65532$/m)
    for (const [, path = ''] of last.matchAll(/node_modules\/@eaas\/server\/([\w./]+)"/g))
      expect(existsSync(join(SERVER, path))).toBe(true)
    expect(last.match(/^(?:RUN|SHELL)\b/m)).toBeNull() // there is no shell to run it
  })
})

interface Service {
  image?: string
  environment?: Record<string, string>
  secrets?: string[]
  volumes?: string[]
  depends_on?: object
  extends?: { file: string; service: string }
}

interface Compose {
  services: Record<string, Service>
  secrets: Record<string, { file: string }>
  volumes: Record<string, object>
}

describe.each(['compose.yml', 'compose.full.yml'])('%s', (name) => {
  const compose = parse(readFileSync(join(CONTAINER, name), 'utf8'), { merge: true }) as Compose
  const services = Object.entries(compose.services).map(([own, service]): [string, Service] => {
    if (!service.extends) return [own, service]
    const { file, service: base } = service.extends
    const other = (parse(readFileSync(join(CONTAINER, file), 'utf8')) as Compose).services[base]
    return [own, { ...other, ...service }]
  })

  it('sets settings that there are', () => {
    const names = services.flatMap(([, { environment }]) => Object.keys(environment ?? {}))
    const settings = names.filter((setting) => setting.startsWith('EAAS_'))
    expect(settings).toContain('EAAS_ROOT_KEY_FILE')
    expect(settings.filter((setting) => !known.includes(setting))).toEqual([])
  })

  it('uses secrets, volumes and services that it declares, and files that the package has', () => {
    for (const [, { image, secrets = [], volumes = [], depends_on = {} }] of services) {
      expect(image).toMatch(/^\$\{[A-Z]+_IMAGE:-[\w./-]+:[\w.]+\}$/)
      expect(secrets.filter((secret) => !(secret in compose.secrets))).toEqual([])
      const needed = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on)
      expect(needed.filter((service) => !(service in compose.services))).toEqual([])
      for (const volume of volumes) {
        const [source = ''] = volume.split(':')
        expect([
          source,
          source.startsWith('.') ? existsSync(join(CONTAINER, source)) : source in compose.volumes,
        ]).toEqual([source, true])
      }
    }
  })

  it('gives every server its own volume for checkpoints, no rights and a root that it cannot write to', () => {
    const servers = services.filter(([own]) => own.startsWith('eaas'))
    const kept = servers.flatMap(([, { volumes = [] }]) => volumes.filter((volume) => volume.endsWith('/checkpoints')))
    expect(new Set(kept).size).toBe(servers.length)
    for (const [, service] of servers) expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'] })
  })
})

describe('beside compose.full.yml', () => {
  const { services } = parse(read('container/compose.full.yml'), { merge: true }) as Compose

  it('haproxy and Prometheus know the servers', () => {
    const servers = Object.keys(services).filter((name) => name.startsWith('eaas'))
    const proxied = [...read('container/haproxy.cfg').matchAll(/^ {2}server \w+ ([\w-]+):8420/gm)].map(
      ([, name]) => name,
    )
    const [job] = parse(read('container/prometheus.yml')).scrape_configs
    expect(proxied).toEqual(servers)
    expect([job.job_name, job.static_configs[0].targets]).toEqual(['eaas', servers.map((name) => `${name}:8420`)])
  })
})

describe('the chart', () => {
  it('sets settings that there are', () => {
    const templates = readdirSync(join(SERVER, 'chart/templates')).map((name) => read(`chart/templates/${name}`))
    const set = settingsIn([...templates, read('chart/values.yaml')].join('\n'))
    expect(set.length).toBeGreaterThan(3)
    expect(set.filter((name) => !known.includes(name))).toEqual([])
  })

  it('has a default for each value of its schema', () => {
    const keysOf = (value: unknown, schema: { properties?: Record<string, object> }): void => {
      if (!schema.properties) return
      const { global: _, ...properties } = schema.properties
      expect(Object.keys(value as object).sort()).toEqual(Object.keys(properties).sort())
      for (const [key, below] of Object.entries(properties)) keysOf((value as Record<string, unknown>)[key], below)
    }
    keysOf(parse(read('chart/values.yaml')), JSON.parse(read('chart/values.schema.json')))
  })
})

describe('the health check of the image', () => {
  const check = async (environment: Record<string, string>) => {
    const child = spawn(process.execPath, [join(CONTAINER, 'health.mjs')], { env: environment, stdio: 'inherit' })
    return (await once(child, 'close'))[0]
  }
  const listen = async (server: Server, where: number | string) => {
    await new Promise<void>((resolve) => server.listen(where, resolve))
    onTestFinished(() => void server.close())
    return server.address() as AddressInfo
  }
  const folder = () => {
    const made = mkdtempSync(join(tmpdir(), 'eaas-health-'))
    onTestFinished(() => rmSync(made, { recursive: true, force: true }))
    return made
  }

  it('passes while /livez answers 200, and fails otherwise', async () => {
    let status = 200
    const { port } = await listen(
      createServer(({ url }, response) => response.writeHead(url === '/livez' ? status : 404).end()),
      0,
    )
    expect(await check({ EAAS_PORT: String(port) })).toBe(0)
    status = 503
    expect(await check({ EAAS_PORT: String(port) })).toBe(1)
    expect(await check({ EAAS_PORT: '1' })).toBe(1)
  })

  it('asks where the server listens: a variable wins over the socket of the file', async () => {
    const live = createServer((_, response) => response.end())
    const { port } = await listen(live, 0)
    const config = join(folder(), 'config.json')
    writeFileSync(config, JSON.stringify({ socket: join(folder(), 'none.sock') }))
    expect(await check({ EAAS_CONFIG: config, EAAS_HOST: '0.0.0.0', EAAS_PORT: String(port) })).toBe(0)
    expect(await check({ EAAS_CONFIG: config, EAAS_PORT: String(port) })).toBe(0)
    writeFileSync(config, JSON.stringify({ socket: join(folder(), 'none.sock'), port }))
    expect(await check({ EAAS_CONFIG: config, EAAS_HOST: '::' })).toBe(0)
    expect(await check({ EAAS_CONFIG: config, EAAS_HOST: '' })).toBe(1)
  })

  it.runIf(process.platform === 'linux')('asks the one address that the server listens on', async () => {
    const live = createServer((_, response) => response.end())
    await new Promise<void>((resolve) => live.listen(0, '127.0.0.2', resolve))
    onTestFinished(() => void live.close())
    const { port } = live.address() as AddressInfo
    expect(await check({ EAAS_HOST: '127.0.0.2', EAAS_PORT: String(port) })).toBe(0)
    expect(await check({ EAAS_PORT: String(port) })).toBe(1)
    const config = join(folder(), 'config.json')
    writeFileSync(config, JSON.stringify({ host: '127.0.0.2', port }))
    expect(await check({ EAAS_CONFIG: config })).toBe(0)
  })

  it('follows the settings: a file, a socket, TLS, certificates of clients', async () => {
    const live = createServer((_, response) => response.end())
    const socket = join(folder(), 'eaas.sock')
    await listen(live, socket)
    const config = join(folder(), 'config.json')
    writeFileSync(config, JSON.stringify({ socket }))
    expect(await check({ EAAS_CONFIG: config })).toBe(0)
    const certificates = createCertificates()
    onTestFinished(certificates.remove)
    const { cert, key } = certificates.make('eaas')
    const options = { cert: readFileSync(cert), key: readFileSync(key) }
    const { port } = await listen(
      createTlsServer(options, (_, response) => response.end()),
      0,
    )
    expect(await check({ EAAS_PORT: String(port) })).toBe(1)
    expect(await check({ EAAS_PORT: String(port), EAAS_TLS_CERT_FILE: cert })).toBe(0)
    expect(await check({ EAAS_PORT: String(port), EAAS_TLS_CERT_FILE: cert, EAAS_TLS_CLIENT_CA_FILE: cert })).toBe(0)
  })
})
