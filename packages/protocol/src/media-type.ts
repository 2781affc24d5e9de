/** The Content-Type that a request's body must have: JSON, and UTF-8 where it names a charset. */
export const JSON_MEDIA_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i
