# The holdfast command: workers, migrations, everything but the embedded stack's servers.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && npm prune --omit=dev --no-audit --no-fund

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production
WORKDIR /holdfast
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
RUN ln -s /holdfast/dist/cli/main.js /usr/local/bin/holdfast
USER node
ENTRYPOINT ["holdfast"]
CMD ["worker"]
