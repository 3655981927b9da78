# The bot itself. Its sandboxes are made by the Docker engine whose socket is mounted:
#   docker run -v /var/run/docker.sock:/var/run/docker.sock -v coder-home:/home/coder … coder-bot
# With a mounted socket, CODER_HOME must have the same path on the host: sandboxes mount their way out from there.
FROM python:3.13-slim-bookworm
RUN useradd --create-home --uid 10001 coder
WORKDIR /opt/coder-bot
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY bot bot
COPY migrations migrations
RUN pip install --no-cache-dir -c constraints.txt '.[postgres]'
USER coder
ENV CODER_HOME=/home/coder/.coder-bot
EXPOSE 8000
CMD ["coder-bot", "serve", "--host", "0.0.0.0"]
