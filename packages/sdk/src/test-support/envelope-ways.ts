// Every way that a value can take into an envelope, and out of it again.
import { type Bundle, bytes, type Client, type Envelope, json, text } from '../index.js'
import { createDek, open, openExport, openText, seal } from '../offline.js'

type Sealed = Envelope | Bundle
/** What goes in and comes out: text as text, bytes as bytes, JSON as what it holds. */
export interface Ways<Value> {
  in: Record<string, (value: Value) => Promise<Sealed>>
  out: Record<string, (sealed: Sealed) => Promise<Value>>
}

/** The most that server mode takes, in bytes. */
export const SERVER_MODE_BYTES = 65_536

interface Scene {
  /** A client that may do everything, server mode too. */
  writer: Client
  /** Another one, so that it reads nothing that the writer kept. */
  reader: Client
  keyId: string
}

/** The ways of text, and of JSON and bytes that are one value each. `server` are those of the service itself. */
export async function findWays({ writer, reader, keyId }: Scene) {
  const exported = openExport(await writer.keys.export(keyId))
  const dek = createDek()
  // A wrapped key of a DEK that we hold: wrapped by the service for a value of its own, and unwrapped
  // offline.
  const { wrapped_key, key_version } = await writer.encrypt('', { keyId, dek: 'call', envelope: 1 })
  dek.set(await exported.unwrap(wrapped_key))
  const wrapped = { wrapped_key, key_id: keyId, key_version }

  const model = <F extends 'full' | 'compact'>(eaas: Client, format: F) =>
    eaas.model({
      keyId,
      envelope: 1, // all ways lead to the same values, so none is bound
      format,
      fields: { text: text().optional(), bytes: bytes().optional(), json: json().optional() },
    })
  const [writes, packs] = [model(writer, 'full'), model(writer, 'compact')]
  const [reads, readsPacked] = [model(reader, 'full'), model(reader, 'compact')]
  const present = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('nothing came back')
    return value
  }
  const openMany = async (row: Parameters<typeof reads.decryptMany>[0][number]) =>
    present((await reads.decryptMany([row])).ok[0])

  const ofText: Ways<string> = {
    in: {
      encrypt: (value) => writer.encrypt(value, { keyId, envelope: 1 }),
      'encrypt, with a DEK of its own': (value) => writer.encrypt(value, { keyId, dek: 'call', envelope: 1 }),
      encryptMany: async (value) =>
        present((await writer.encryptMany([{ value }], { keyId, envelope: 1, fields: ['value'] }))[0]).value,
      'a model': async (value) => present((await writes.encrypt({ text: value })).text),
      'a model, many': async (value) => present((await writes.encryptMany([{ text: value }]))[0]?.text),
      'a compact model': async (value) => present(packs.unpack(await packs.encrypt({ text: value })).text),
      offline: (value) => seal(value, { dek, wrapped, envelope: 1 }),
    },
    out: {
      decryptText: (sealed) => reader.decryptText(sealed),
      'decryptText, as JSON text': (sealed) => reader.decryptText(JSON.parse(JSON.stringify(sealed)) as Sealed),
      decryptMany: async (value) => present((await reader.decryptMany([{ value }], { fields: ['value'] }))[0]).value,
      'a model': async (sealed) => present((await reads.decrypt({ text: sealed as Envelope })).text),
      'a model, many': async (sealed) => present((await openMany({ text: sealed as Envelope })).text),
      'an export': (sealed) => exported.decryptText(sealed),
      'offline, with the DEK': async (sealed) => openText(sealed, await exported.unwrap(sealed.wrapped_key)),
    },
  }
  const ofBytes: Ways<Uint8Array> = {
    in: {
      encrypt: (value) => writer.encrypt(value, { keyId, envelope: 1 }),
      encryptMany: async (value) =>
        present((await writer.encryptMany([{ value }], { keyId, envelope: 1, fields: ['value'] }))[0]).value,
      'a model': async (value) => present((await writes.encrypt({ bytes: value })).bytes),
      'a compact model': async (value) => present(packs.unpack(await packs.encrypt({ bytes: value })).bytes),
      offline: (value) => seal(value, { dek, wrapped, envelope: 1 }),
    },
    out: {
      decrypt: (sealed) => reader.decrypt(sealed),
      decryptMany: async (value) =>
        present((await reader.decryptMany([{ value }], { fields: ['value'], as: 'bytes' }))[0]).value,
      'a model': async (sealed) => present((await reads.decrypt({ bytes: sealed as Envelope })).bytes),
      'a compact model': async (sealed) =>
        present((await readsPacked.decrypt(readsPacked.pack({ bytes: sealed as Envelope }))).bytes),
      'an export': (sealed) => exported.decrypt(sealed),
      'offline, with the DEK': async (sealed) => open(sealed, await exported.unwrap(sealed.wrapped_key)),
    },
  }
  const ofJson: Ways<unknown> = {
    in: {
      encryptJson: (value) => writer.encryptJson(value, { keyId, envelope: 1 }),
      'encryptMany, as its text': async (value) =>
        present(
          (await writer.encryptMany([{ value: JSON.stringify(value) }], { keyId, envelope: 1, fields: ['value'] }))[0],
        ).value,
      'a model': async (value) => present((await writes.encrypt({ json: value })).json),
      'a model, many': async (value) => present((await writes.encryptMany([{ json: value }]))[0]?.json),
      'a compact model': async (value) => present(packs.unpack(await packs.encrypt({ json: value })).json),
    },
    out: {
      decryptJson: (sealed) => reader.decryptJson(sealed),
      'decryptMany, as its text': async (value) =>
        JSON.parse(present((await reader.decryptMany([{ value }], { fields: ['value'] }))[0]).value),
      'a model': async (sealed) => (await reads.decrypt({ json: sealed as Envelope })).json,
      'a model, many': async (sealed) => (await openMany({ json: sealed as Envelope })).json,
      'a compact model': async (sealed) =>
        (await readsPacked.decrypt(readsPacked.pack({ json: sealed as Envelope }))).json,
      'an export': (sealed) => exported.decryptJson(sealed),
    },
  }
  const ofServer: Ways<Uint8Array> = {
    in: { 'server mode': (value) => writer.server.encrypt(value, { keyId }) },
    out: { 'server mode': (sealed) => reader.server.decrypt(sealed) },
  }
  return { text: ofText, bytes: ofBytes, json: ofJson, server: ofServer }
}

/**
 * Sends a value through all ways in, and each result through all ways out; returns the pairs from which something
 * else came back.
 */
export async function lostOn<Value>(
  value: Value,
  ways: Ways<Value>,
  isSame: (back: Value, value: Value) => boolean,
): Promise<string[]> {
  const lost: string[] = []
  for (const [wayIn, sealBy] of Object.entries(ways.in)) {
    const sealed = await sealBy(value)
    for (const [wayOut, openBy] of Object.entries(ways.out)) {
      if (!isSame(await openBy(sealed), value)) lost.push(`in by ${wayIn}, out by ${wayOut}`)
    }
  }
  return lost
}
