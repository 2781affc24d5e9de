// Presigned URLs by AWS Signature Version 4 in the query. An application uses its store's own package for this, such as
// @aws-sdk/s3-request-presigner. These lines spare the example that package, and its store checks URLs with them.
import { createHash, createHmac } from 'node:crypto'

const ALGORITHM = 'AWS4-HMAC-SHA256'

/**
 * @typedef {object} Credentials
 * @property {string} accessKey
 * @property {string} secretKey
 * @property {string} region
 */

/**
 * Makes the URL that lets its holder make one kind of request on one object for `seconds`.
 *
 * @param {Credentials} credentials
 * @param {{ method: string, url: string, seconds: number, now?: Date }} options
 */
export function presign({ accessKey, secretKey, region }, { method, url, seconds, now = new Date() }) {
  const signed = new URL(url)
  const time = now.toISOString().replaceAll(/[-:]|\.\d{3}/g, '')
  const scope = `${time.slice(0, 8)}/${region}/s3/aws4_request`
  signed.searchParams.set('X-Amz-Algorithm', ALGORITHM)
  signed.searchParams.set('X-Amz-Credential', `${accessKey}/${scope}`)
  signed.searchParams.set('X-Amz-Date', time)
  signed.searchParams.set('X-Amz-Expires', `${seconds}`)
  signed.searchParams.set('X-Amz-SignedHeaders', 'host')
  signed.searchParams.set('X-Amz-Signature', signatureOf(secretKey, { method, url: signed, time, scope }))
  return signed.href
}

/**
 * Computes the signature of a request whose query has all parameters but the signature.
 *
 * @param {string} secretKey
 * @param {{ method: string, url: URL, time: string, scope: string }} request
 */
export function signatureOf(secretKey, { method, url, time, scope }) {
  const query = [...url.searchParams].map(([name, value]) => `${escaped(name)}=${escaped(value)}`).sort()
  const canonical = [method, url.pathname, query.join('&'), `host:${url.host}`, '', 'host', 'UNSIGNED-PAYLOAD']
  const toSign = [ALGORITHM, time, scope, createHash('sha256').update(canonical.join('\n')).digest('hex')]
  const [date = '', region = '', service = '', end = ''] = scope.split('/')
  const key = [date, region, service, end].reduce(
    (from, part) => createHmac('sha256', from).update(part).digest(),
    Buffer.from(`AWS4${secretKey}`),
  )
  return createHmac('sha256', key).update(toSign.join('\n')).digest('hex')
}

/** @param {string} text */
function escaped(text) {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
}
