/** Explains in the log why a connection to an upstream failed: the code, and advice if the code alone is not clear. */

/** Node's codes (OpenSSL's X509_V_ERR_…). Of several words the last one counts. Other codes are clear by themselves. */
export function explained (code: string, upstream: string): string {
  const help = helpWith(code.slice(code.lastIndexOf(' ') + 1), upstream)
  return help === null ? code : `${code}: ${help}`
}

function helpWith (code: string, upstream: string): string | null {
  switch (code) {
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
      return `the certificate of upstream ${upstream} is signed by nobody that is trusted here. Give the certificate of its authority as upstreams.${upstream}.ca or caFile, or by NODE_EXTRA_CA_CERTS`
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the certificate of upstream ${upstream} is for another name. Write the host in upstreams.${upstream}.url as the certificate has it (with host: preserve it is checked against the client's Host)`
    case 'CERT_HAS_EXPIRED':
    case 'CERT_NOT_YET_VALID':
      return `the certificate of upstream ${upstream} is not valid today. Give the server a new one, and check the clocks`
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return `upstream ${upstream} does not speak TLS at this port. Write http:// in upstreams.${upstream}.url, or the port that does`
    case 'LEASE':
      return 'the lease was over, lost or in doubt at the last check, so nothing was sent'
    default: return null
  }
}
