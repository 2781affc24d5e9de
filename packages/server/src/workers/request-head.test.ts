// Which tenant the first bytes of a connection name, and when they are enough.
import { describe, expect, it } from 'vitest'
import { MOST_HEAD_BYTES, readRequestHead } from './request-head.js'

const TENANT = '0123456789abcdef0123456789abcdef'
const KEY = `eaas_sk_${TENANT}_${'s'.repeat(43)}`
const read = (text: string) => readRequestHead(Buffer.from(text, 'latin1'))
const head = (...headers: string[]) => `GET / HTTP/1.1\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`

describe('the head of a request', () => {
  it.each([
    ['Bearer', `Authorization: Bearer ${KEY}`],
    ['any case', `aUTHORIZATION:\t bEARER ${KEY}`],
    ['no space', `Authorization:Bearer ${KEY}`],
  ])('names its tenant: %s', (_, header) => {
    expect(read(head('Host: x', header, 'Accept: */*'))).toEqual({ tenant: TENANT })
    expect(read(`${head(header)}{"body":1}`)).toEqual({ tenant: TENANT })
  })

  it.each([
    ['no header', head('Host: x')],
    ['another scheme', head(`Authorization: Basic ${KEY}`)],
    ['another header', head(`X-Authorization: Bearer ${KEY}`)],
    ['a shorter id', head(`Authorization: Bearer ${KEY.replace('0123', '123')}`)],
    ['the path', `GET /?authorization: bearer ${KEY} HTTP/1.1\r\n\r\n`],
    ['the body', `${head('Host: x')}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`],
    ['the next request', head('Host: x') + head(`Authorization: Bearer ${KEY}`)],
  ])('names none: %s', (_, text) => {
    expect(read(text)).toEqual({ tenant: undefined })
  })

  it('may name one as long as it is not complete', () => {
    const text = head('Host: x', `Authorization: Bearer ${KEY}`)
    for (let length = 1; length < text.length; length++) expect(read(text.slice(0, length))).toBeUndefined()
  })

  it.each([
    ['does not begin with a method', '\x16\x03\x01'],
    ['is longer than a head may be', `GET / HTTP/1.1\r\nX: ${'x'.repeat(MOST_HEAD_BYTES)}`],
  ])('is not waited for if it %s', (_, text) => {
    expect(read(text)).toEqual({ tenant: undefined })
  })
})
