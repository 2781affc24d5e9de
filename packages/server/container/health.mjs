// Exits with 0 while the server of this container answers /livez, by its settings: for HEALTHCHECK.
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { request as requestTls } from 'node:https'
import { connect } from 'node:net'

const PATIENCE_MS = 4_000
const file = process.env.EAAS_CONFIG ? JSON.parse(readFileSync(process.env.EAAS_CONFIG, 'utf8')) : {}
const setting = (name) => process.env[`EAAS_${name.toUpperCase()}`] || file[name]

// As for the server, an address in a variable wins over a socket in the file (INSTEAD in src/config.ts).
const hasAddress = Boolean(process.env.EAAS_HOST || process.env.EAAS_PORT)
const socketPath = process.env.EAAS_SOCKET || (hasAddress ? undefined : file.socket)
const host = setting('host') ?? '0.0.0.0'
const isEvery = host === '0.0.0.0' || host === '::'
const where = socketPath
  ? { socketPath }
  : { host: isEvery ? '127.0.0.1' : host, port: Number(setting('port') ?? 8420) }
setTimeout(() => process.exit(1), PATIENCE_MS)
if (setting('tls_client_ca_file')) {
  // Without a client's certificate, only that the port answers can be seen.
  connect(where)
    .on('connect', () => process.exit(0))
    .on('error', () => process.exit(1))
} else {
  // The certificate is for other names than that of this machine, and the question holds no secret.
  const isTls = setting('tls_cert_file') !== undefined
  const ask = isTls ? requestTls : request
  ask({ ...where, path: '/livez', rejectUnauthorized: false })
    .on('response', ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1))
    .on('error', () => process.exit(1))
    .end()
}
