import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Certificate,
  type Certificates,
  createCertificates,
} from '../../../../../test/support/service/certificates.js'
import { createTlsListener, readTls, TlsError } from './tls-listener.js'

const DAY_MS = 86_400_000

let certificates: Certificates
let one: Certificate
let other: Certificate
beforeAll(() => {
  certificates = createCertificates()
  one = certificates.make('one')
  other = certificates.make('other')
})
afterAll(() => certificates.remove())

const filesOf = ({ cert, key }: Certificate, clientCaFile?: string) => ({
  certFile: cert,
  keyFile: key,
  clientCaFile,
  minVersion: 'TLSv1.3' as const,
})

/** Writes a file of the folder, and returns its path. */
function written(text: string): string {
  const path = join(certificates.folder, 'written')
  writeFileSync(path, text)
  return path
}

describe('the files of TLS', () => {
  it('are taken with a chain and with the authorities of clients', () => {
    const chain = written(readFileSync(one.cert, 'utf8') + readFileSync(certificates.ca.cert, 'utf8'))
    const found = readTls(filesOf({ cert: chain, key: one.key }, certificates.ca.cert), Date.now())
    expect(found.expiresAt).toBeGreaterThan(Date.now() + DAY_MS)
  })

  it.each([
    ['a certificate that is missing', () => filesOf({ ...one, cert: '/nowhere' }), /^EAAS_TLS_CERT_FILE .*ENOENT/],
    ['a key that is missing', () => filesOf({ ...one, key: '/nowhere' }), /^EAAS_TLS_KEY_FILE .*ENOENT/],
    ['text that is no certificate', () => filesOf({ ...one, cert: written('x') }), /^EAAS_TLS_CERT_FILE must hold/],
    [
      'a certificate that was cut',
      () => filesOf({ ...one, cert: written(readFileSync(one.cert, 'utf8').replace(/\n.{20}/, '\n')) }),
      /^EAAS_TLS_CERT_FILE must hold/,
    ],
    ['text that is no key', () => filesOf({ ...one, key: written('x') }), /^EAAS_TLS_KEY_FILE must hold/],
    [
      'the key of another certificate',
      () => filesOf({ ...one, key: other.key }),
      /is not that of the first certificate/,
    ],
    [
      'a chain in the wrong order',
      () =>
        filesOf({ ...one, cert: written(readFileSync(certificates.ca.cert, 'utf8') + readFileSync(one.cert, 'utf8')) }),
      /is not that of the first/,
    ],
    ['authorities that are missing', () => filesOf(one, '/nowhere'), /^EAAS_TLS_CLIENT_CA_FILE .*ENOENT/],
    ['authorities of which there is none', () => filesOf(one, written('')), /^EAAS_TLS_CLIENT_CA_FILE must hold/],
    [
      'a key with a passphrase',
      () => {
        const path = join(certificates.folder, 'encrypted')
        execFileSync('openssl', ['pkcs8', '-topk8', '-in', one.key, '-passout', 'pass:x', '-out', path])
        return filesOf({ ...one, key: path })
      },
      /^EAAS_TLS_KEY_FILE must hold .* without a passphrase/,
    ],
  ])('are refused with %s', (_, files, message) => {
    expect(() => readTls(files(), Date.now())).toThrow(
      expect.objectContaining({ name: 'TlsError', message: expect.stringMatching(message) }),
    )
  })

  it('are refused once the certificate has expired', () => {
    expect(() => readTls(filesOf(one), Date.now() + 3 * DAY_MS)).toThrow(/expired: /)
  })

  it('are refused once all authorities of clients have expired, since no client could connect', () => {
    const short = createCertificates({ days: 1 })
    const now = Date.now() + 1.5 * DAY_MS
    expect(() => readTls(filesOf(one, short.ca.cert), now)).toThrow(/EAAS_TLS_CLIENT_CA_FILE.* expired: /)
    const both = written(readFileSync(short.ca.cert, 'utf8') + readFileSync(certificates.ca.cert, 'utf8'))
    expect(readTls(filesOf(one, both), now).ca).toBe(readFileSync(both, 'utf8'))
    short.remove()
  })

  it('say nothing of the key in an error', () => {
    const key = readFileSync(one.key, 'utf8')
    const broken = written(key.replace('A', 'B').slice(0, -60))
    let message = ''
    try {
      readTls(filesOf({ ...one, key: broken }), Date.now())
    } catch (error) {
      message = String(error)
    }
    expect(message).toMatch(/EAAS_TLS_KEY_FILE/)
    for (const line of key.split('\n').slice(1, -2)) expect(message).not.toContain(line.slice(0, 16))
  })
})

describe('a listener of TLS', () => {
  it('tells whether its files changed, and keeps the earlier certificate while they are wrong', () => {
    const used = { cert: join(certificates.folder, 'used.crt'), key: join(certificates.folder, 'used.key') }
    const use = ({ cert, key }: Certificate) => {
      copyFileSync(cert, used.cert)
      copyFileSync(key, used.key)
    }
    use(one)
    const listener = createTlsListener(filesOf(used))
    expect(listener.reload()).toBe(false)
    copyFileSync(other.cert, used.cert) // a renewal writes one file after the other
    expect(() => listener.reload()).toThrow(TlsError)
    expect(listener.state().isStale).toBe(true)
    use(other)
    expect(listener.reload()).toBe(true)
    expect(listener.state().isStale).toBe(false)
  })
})
