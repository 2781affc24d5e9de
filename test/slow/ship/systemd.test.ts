// The steps of the guide and the unit, with systemd as process 1: in a machine that mmdebstrap makes of Debian's packages and
// systemd-nspawn boots. It shares the network, so that it reaches PostgreSQL and a registry of this run.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LocalRegistry, startLocalRegistry } from '../../packed/local-registry.js'
import { findOrInstallPostgres } from '../../support/database/find-postgres.js'
import { freePort, type PostgresServer, startPostgres } from '../../support/database/postgres.js'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { shellOf } from '../../support/sources/server-docs.js'

const run = promisify(execFile)
const SETUP_MS = 15 * 60_000
/** Its own folder is in the file system of the host, where systemd-nspawn refuses to remove it. */
const BOOT = `mkdir -p /run/systemd/nspawn && mount -t tmpfs none /run/systemd/nspawn &&
  exec systemd-nspawn -D "$0" --register=no --keep-unit --boot`

const found = findOrInstallPrograms(['mmdebstrap', 'systemd-nspawn'], ['mmdebstrap', 'systemd-container'])

describe.runIf(found)('the unit under systemd', () => {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-systemd-'))
  const root = join(folder, 'root')
  let registry: LocalRegistry | undefined
  let postgres: PostgresServer | undefined
  let machine: ChildProcess | undefined
  let port: number

  beforeAll(async () => {
    const packages = 'systemd,systemd-sysv,dbus,openssl,libstdc++6,procps'
    await run('mmdebstrap', ['--mode=root', '--variant=minbase', `--include=${packages}`, 'bookworm', root])
    cpSync(process.execPath, join(root, 'usr/bin/node'))
    const npm = dirname(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())))
    cpSync(npm, join(root, 'usr/lib/npm'), { recursive: true })
    symlinkSync('../lib/npm/bin/npm-cli.js', join(root, 'usr/bin/npm'))
    registry = await startLocalRegistry()
    writeFileSync(join(root, 'root/.npmrc'), `registry=${registry.url}\n`)
    const bin = findOrInstallPostgres()
    if (!bin) throw new Error('there is no PostgreSQL')
    postgres = await startPostgres({ bin })
    writeFileSync(join(root, 'root/url'), await postgres.createDatabase('eaas_systemd'))
    port = await freePort()
    const own = join(root, 'etc/systemd/system/eaas.service.d')
    mkdirSync(own)
    writeFileSync(
      join(own, 'test.conf'),
      `[Service]\nEnvironment=EAAS_PORT=${port} EAAS_DRAIN_SECONDS=0\nWatchdogSec=10\n`,
    )
    machine = spawn('unshare', ['--mount', 'sh', '-c', BOOT, root], { stdio: 'ignore' })
  }, SETUP_MS)
  afterAll(async () => {
    if (machine && machine.exitCode === null) {
      machine.kill('SIGTERM') // shuts the machine down
      await once(machine, 'close')
    }
    registry?.close()
    await postgres?.remove()
    rmSync(folder, { recursive: true, force: true })
  }, SETUP_MS)

  /** Runs a command in the machine; its output, or undefined if it fails. */
  async function inside(command: string): Promise<string | undefined> {
    const leader = readFileSync(`/proc/${machine?.pid}/task/${machine?.pid}/children`, 'utf8').trim()
    const env = ['env', '-i', 'PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root']
    const args = ['-t', leader, '-m', '-u', '-i', '-p', '-C', '-r', '-w', ...env, 'bash', '-c', command]
    return run('nsenter', args).then(
      ({ stdout }) => stdout.trim(),
      () => undefined,
    )
  }
  const pidOf = () => inside('systemctl show eaas --property MainPID --value')
  const isServing = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    )

  it('starts by the steps of the guide, with no right and no secret in its environment', async () => {
    await expect.poll(() => inside('systemctl is-system-running'), { timeout: 60_000 }).toBe('running')
    const paste = '(umask 077; cat > /etc/eaas/database-url)'
    const steps = shellOf('production.md', 'useradd --system eaas')
    expect(steps.filter((line) => line.startsWith(paste))).toHaveLength(1)
    const typed = steps.map((line) => line.replace(paste, '(umask 077; cat /root/url > /etc/eaas/database-url)'))
    expect(await inside(`set -e\n${typed.join('\n')}`)).toBeDefined()
    expect(await isServing()).toBe(true)
    const pid = await pidOf()
    const status = await inside(`cat /proc/${pid}/status`)
    expect(status).toMatch(/^CapEff:\s+0{16}$/m)
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(status).toMatch(/^Seccomp:\s+2$/m)
    const environment = await inside(`tr '\\0' '\\n' < /proc/${pid}/environ`)
    expect(environment).toContain('EAAS_ROOT_KEY_FILE=/run/credentials/eaas.service/root-key')
    expect(environment).not.toContain('postgres://')
    const files = 'EAAS_ROOT_KEY_FILE=/etc/eaas/root-key EAAS_DATABASE_URL_FILE=/etc/eaas/database-url'
    expect(await inside(`${files} eaas doctor`)).toContain('ok     root key ')
  })

  it('reloads, and stops without a failure', async () => {
    await inside('systemctl reload eaas')
    await expect.poll(() => inside('journalctl --unit eaas')).toContain('reloaded at SIGHUP')
    await inside('systemctl stop eaas')
    expect(await inside('systemctl show eaas --property Result --value')).toBe('success')
    await inside('systemctl start eaas')
    expect(await isServing()).toBe(true)
  })

  it.each([
    ['that is killed', 'KILL', 'code=killed, status=9/KILL'],
    ['whose event loop stands still', 'STOP', 'Watchdog timeout'],
  ])('starts a server again %s', async (_, signal, logged) => {
    const pid = await pidOf()
    expect(Number(pid)).toBeGreaterThan(0) // 0 would be this process and its group
    await inside(`kill -${signal} ${pid}`)
    await expect.poll(() => inside('journalctl --unit eaas'), { timeout: 60_000 }).toContain(logged)
    await expect.poll(isServing, { timeout: 60_000 }).toBe(true)
    expect(await pidOf()).not.toBe(pid)
  })
})
