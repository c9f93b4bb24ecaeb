"""The certificates of one control plane: authority, server, administrator, and the key that signs tokens."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the PEM files in `folder`; all keys are P-256, made in milliseconds."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that clients trust, and that the server checks client certificates with."""
        return self.folder / "ca.crt"

    @property
    def server(self) -> tuple[Path, Path]:
        """Certificate and key of the API server (and of a proxy before it) on 127.0.0.1 and localhost."""
        return self.folder / "server.crt", self.folder / "server.key"

    @property
    def admin(self) -> tuple[Path, Path]:
        """Certificate and key of a member of system:masters."""
        return self.folder / "admin.crt", self.folder / "admin.key"

    @property
    def tokens(self) -> tuple[Path, Path]:
        """Public and private key for service account tokens."""
        return self.folder / "sa.pub", self.folder / "sa.key"


def make_certificates(folder: Path) -> Certificates:
    """Write a fresh set into `folder`, which must not hold one already."""
    folder.mkdir(parents=True, mode=0o700)
    made = Certificates(folder)
    authority = trustme.CA(organization_name="controlplane")
    authority.cert_pem.write_to_path(str(made.authority))
    authority.private_key_pem.write_to_path(str(folder / "ca.key"))
    names = ("127.0.0.1", "127.96.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    server = authority.issue_cert(*names, common_name="kube-apiserver")
    # A certificate without any name gets an empty critical extension from trustme, which Go refuses.
    admin = authority.issue_cert("admin.local", common_name="admin", organization_name="system:masters")
    for issued, (certificate, key) in ((server, made.server), (admin, made.admin)):
        issued.private_key_pem.write_to_path(str(key))
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    signing = ec.generate_private_key(ec.SECP256R1())
    public, private = made.tokens
    private.write_bytes(
        signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return made


def issue_client(certificates: Certificates, user: str, group: str | None = None) -> tuple[Path, Path]:
    """Certificate and key for `user` (and one `group`) beside the others: fewer rights than an administrator's."""
    authority = trustme.CA.from_pem(certificates.authority.read_bytes(), (certificates.folder / "ca.key").read_bytes())
    issued = authority.issue_cert("user.local", common_name=user, organization_name=group)
    paths = (certificates.folder / f"user-{user}.crt", certificates.folder / f"user-{user}.key")
    issued.private_key_pem.write_to_path(str(paths[1]))
    paths[0].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return paths
