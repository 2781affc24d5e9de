/**
 * The directory that the build puts Swagger UI into. This module must stay directly under `src/` or `dist/`,
 * so that both find it in `dist/`.
 */
export const SWAGGER_UI_DIRECTORY = new URL('../dist/swagger-ui/', import.meta.url)
