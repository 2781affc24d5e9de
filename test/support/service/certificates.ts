// Certificates of an authority of the test's own, made by openssl.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Where a certificate and its key are. */
export interface Certificate {
  cert: string
  key: string
}

export interface Certificates {
  folder: string
  /** the authority itself */
  ca: Certificate
  /** Makes a certificate for a name, which is also valid for localhost and 127.0.0.1. */
  make(name: string): Certificate
  remove(): void
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Creates an authority in a folder of its own. */
export function createCertificates({ days = 3 } = {}): Certificates {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-certificates-'))
  const at = (name: string) => ({ cert: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) })
  const openssl = (args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  const ca = at('ca')
  openssl(['req', '-x509', ...KEY, '-days', `${days}`, '-subj', '/CN=authority', '-keyout', ca.key, '-out', ca.cert])
  return {
    folder,
    ca,
    make(name) {
      const { cert, key } = at(name)
      const [request, extensions] = [join(folder, 'request.pem'), join(folder, 'extensions')]
      writeFileSync(extensions, 'subjectAltName=DNS:localhost,IP:127.0.0.1')
      openssl(['req', ...KEY, '-subj', `/CN=${name}`, '-keyout', key, '-out', request])
      const by = ['-CA', ca.cert, '-CAkey', ca.key, '-CAcreateserial', '-days', '2', '-extfile', extensions]
      openssl(['x509', '-req', '-in', request, ...by, '-out', cert])
      return { cert, key }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
