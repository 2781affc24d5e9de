/** The files that the build of `@eaas/server` makes of the API's description, which the server serves as they are. */
import { openApiDocument, operatorsOpenApiDocument } from './document.js'
import { docsPage } from './page.js'

/** Makes the files, by their names in `dist`. */
export function openApiFiles(): Record<string, string> {
  const document = openApiDocument()
  return {
    'openapi.json': JSON.stringify(document),
    'operators-openapi.json': JSON.stringify(operatorsOpenApiDocument()),
    'docs.html': docsPage(document),
  }
}
