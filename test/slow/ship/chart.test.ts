// The Helm chart by Helm itself, and what it renders by the schemas of Kubernetes. It was run on no cluster.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { findProgram } from '../../support/run/apt-program.js'
import { ROOT } from '../../support/sources/source-files.js'

const CHART = join(ROOT, 'packages/server/chart')
const HELM_VERSION = 'v3.18.6'
/** The oldest and the newest version that the schemas and the chart both know. */
const KUBERNETES = ['1.25.0', '1.37.0']
const INSTALL_MS = 20 * 60_000
const NEEDED = ['--set-string', 'image.repository=registry.example.org/eaas,image.tag=1']
const ALL = [
  'networkPolicy.enabled=true',
  'podMonitor.enabled=true',
  'databaseCa.configMap=ca',
  'settings.EAAS_LOG_LEVEL=warn',
]

const folder = mkdtempSync(join(tmpdir(), 'eaas-chart-'))
const helm = findOrBuildHelm()
const schemas = installSchemas()

/** Helm: EAAS_TEST_HELM, the PATH, or built by Go. */
function findOrBuildHelm(): string | undefined {
  const found = process.env.EAAS_TEST_HELM || findProgram('helm')
  const go = findProgram('go')
  if (found || !go) {
    if (!found) console.error('!!! NO HELM FOUND, nor Go to build it: the chart was not checked. Set EAAS_TEST_HELM.')
    return found
  }
  try {
    console.error(`No helm found: building ${HELM_VERSION} with Go …`)
    const env = { ...process.env, GOBIN: folder }
    execFileSync(go, ['install', `helm.sh/helm/v3/cmd/helm@${HELM_VERSION}`], {
      env,
      stdio: 'ignore',
      timeout: INSTALL_MS,
    })
    return join(folder, 'helm')
  } catch (error) {
    console.error(`!!! NO HELM: ${error instanceof Error ? error.message : error}`)
    return undefined
  }
}

/** The folder with the package of PyPI that has the schemas. */
function installSchemas(): string | undefined {
  const target = join(folder, 'schemas')
  const args = ['-m', 'pip', 'install', '--quiet', '--target', target, 'kubernetes-validate']
  const { status } = spawnSync('python3', args, { stdio: 'ignore', timeout: INSTALL_MS })
  if (status === 0) return target
  console.error('!!! NO KUBERNETES-VALIDATE: what the chart renders was not checked. It is installed by pip.')
  return undefined
}

const run = (...args: string[]) => spawnSync(helm ?? '', args, { encoding: 'utf8' })
const render = (version: string, ...args: string[]) =>
  run('template', 'x', CHART, '--kube-version', version, ...NEEDED, ...args)

describe.runIf(helm)('the chart', () => {
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('passes helm lint', () => {
    const { status, stdout } = run('lint', '--strict', CHART, ...NEEDED)
    expect([status, stdout]).toEqual([0, expect.stringContaining('0 chart(s) failed')])
  })

  it.each(KUBERNETES)('renders what the schemas of Kubernetes %s accept', (version) => {
    expect(schemas).toBeDefined()
    for (const more of [[], ['--set', ALL.join(',')]]) {
      const { status, stdout, stderr } = render(version, ...more)
      expect([status, stderr]).toEqual([0, ''])
      const file = join(folder, 'rendered.yaml')
      writeFileSync(file, stdout)
      const args = ['-m', 'kubernetes_validate', '--strict', '--kubernetes-version', version, file]
      const env = { ...process.env, PYTHONPATH: schemas }
      const checked = spawnSync('python3', args, { encoding: 'utf8', env })
      const said = `${checked.stdout}${checked.stderr}`
      expect([checked.status, said]).toEqual([
        0,
        expect.stringContaining(`statefulset/x against version ${version.slice(0, 4)}`),
      ])
      expect(said.match(/^WARN.*/gm)?.filter((line) => !line.includes('PodMonitor')) ?? []).toEqual([])
    }
  })

  it('renders probes, a budget for disruptions, secrets as files alone and a job that migrates', () => {
    const parts = parseAllDocuments(render('1.34.0', '--set', ALL.join(',')).stdout).map((part) => part.toJS())
    expect(parts.map(({ kind }) => kind).sort()).toEqual([
      'Job',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'PodMonitor',
      'Service',
      'Service',
      'StatefulSet',
    ])
    const ofKind = (kind: string) => parts.find((part) => part.kind === kind)
    const { spec } = ofKind('StatefulSet').spec.template
    const [server] = spec.containers
    expect(server.startupProbe.httpGet.path).toBe('/livez')
    expect(server.livenessProbe.httpGet.path).toBe('/livez')
    expect(server.readinessProbe.httpGet.path).toBe('/readyz')
    expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(15 + 10)
    const job = ofKind('Job')
    expect(job.metadata.annotations['helm.sh/hook']).toBe('pre-install,pre-upgrade')
    expect(job.spec.template.spec.containers[0].args).toEqual(['migrate'])
    for (const pod of [spec, job.spec.template.spec]) {
      const [container] = pod.containers
      expect(pod).toMatchObject({ automountServiceAccountToken: false, securityContext: { runAsNonRoot: true } })
      expect(container.securityContext).toMatchObject({
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
      })
      const names = container.env.map(({ name }: { name: string }) => name)
      expect(names).toEqual(expect.arrayContaining(['EAAS_ROOT_KEY_FILE', 'EAAS_DATABASE_URL_FILE']))
      expect(container.env.filter((entry: object) => 'valueFrom' in entry)).toEqual([])
      const secret = pod.volumes.find((volume: object) => 'secret' in volume)
      expect(container.volumeMounts).toContainEqual({
        name: secret.name,
        mountPath: '/run/secrets/eaas',
        readOnly: true,
      })
    }
  })

  it('renders a job that asks for an installation at an upgrade, and no root key where it is elsewhere', () => {
    const { stdout } = render('1.34.0', '--is-upgrade', '--set-string', 'secret.rootKey=,serviceAccountName=kms')
    expect(stdout).not.toContain('root-key')
    const parts = parseAllDocuments(stdout).map((part) => part.toJS())
    const pods = parts.flatMap(({ kind, spec }) => (['Job', 'StatefulSet'].includes(kind) ? [spec.template.spec] : []))
    expect(pods.map(({ serviceAccountName }) => serviceAccountName)).toEqual(['kms', 'kms'])
    expect(pods.map(({ containers }) => containers[0].args)).toContainEqual(['migrate', '--existing'])
  })

  it('renders a whole number as the server reads it', () => {
    const { stdout } = render('1.34.0', '--set-json', 'settings.EAAS_ROTATE_AFTER_WRAPS=1000000')
    expect(stdout).toContain('{ name: EAAS_ROTATE_AFTER_WRAPS, value: "1000000" }')
  })

  it.each([
    ['a port, which its probes would not know', 'settings.EAAS_PORT=1'],
    ['certificates, which its probes would not know', 'settings.EAAS_TLS_CERT_FILE=x'],
    ['a secret as a setting', 'settings.EAAS_ROOT_KEY=x'],
    ['a setting that is none of the server', 'settings.PATH=x'],
    ['an unknown value', 'replica=3'],
    ['a digest that is none', 'image.digest=sha256:abc'],
  ])('refuses %s', (_, value) => {
    expect(render('1.34.0', '--set-string', value).status).not.toBe(0)
  })
})
